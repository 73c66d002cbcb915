"""Settings as words NAME=VALUE, and as lines of a file."""

from __future__ import annotations

import math

import pytest

from eim_ros.core.errors import ConfigurationError
from eim_ros.core.settings import assignments, chosen, parsed
from eim_ros.learning import EIMConfig


def test_words_are_settings_by_their_names_in_python() -> None:
    words = ["n_components=3", "m_step.kl_bound=1e-3", "ratio.hidden_layers = 8 4", "kl_term=false"]
    expected = EIMConfig(n_components=3, kl_term=False).replace(
        **{"m_step.kl_bound": 1e-3, "ratio.hidden_layers": (8, 4)}
    )
    assert chosen(EIMConfig(), assignments(words)) == expected


def test_lines_of_a_file_may_be_nested() -> None:
    lines = {"n_components": 3, "m_step": {"kl_bound": "0.1"}, "ratio": {"hidden_layers": 8}}
    settings = chosen(EIMConfig(), lines)
    assert (settings.n_components, settings.m_step.kl_bound, settings.ratio.hidden_layers) == (3, 0.1, (8,))
    with pytest.raises(ConfigurationError, match="setting ratio.patience is given twice"):
        chosen(EIMConfig(), {"ratio": {"patience": 3}, "ratio.patience": 4})


@pytest.mark.parametrize("text", ["8 4", "[8, 4]", "8,4"])
def test_lists_may_be_written_with_spaces_or_commas(text: str) -> None:
    assert chosen(EIMConfig(), {"ratio.hidden_layers": text}).ratio.hidden_layers == (8, 4)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"experts": 3}, "unknown setting experts of EIMConfig"),
        ({"n_componets": 3}, "did you mean n_components"),
        ({"n_components": "many"}, "n_components must be int, got 'many'"),
        ({"ratio.patience": 0.5}, "patience must be int"),
        ({"ratio": "network"}, "ratio is a group of settings"),
    ],
)
def test_wrong_settings_are_refused(given: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        chosen(EIMConfig(), given)


@pytest.mark.parametrize("words", [["n"], ["=3"], ["n="], ["n=3", "n=4"]])
def test_what_is_no_assignment_is_refused(words: list[str]) -> None:
    with pytest.raises(ConfigurationError, match=r"name=value|twice"):
        assignments(words)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("up", "up"),
        ("1e-3", 1e-3),
        ("0 0 inf", [0.0, 0.0, math.inf]),
        ("[0, -inf]", [0, -math.inf]),
        ("{joint_1: [0, 1e-1]}", {"joint_1": [0, 0.1]}),
        ("true", True),
        ("a: [", "a: ["),
    ],
)
def test_texts_are_yaml_or_numbers(text: str, value: object) -> None:
    assert parsed(text) == value
