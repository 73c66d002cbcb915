"""Settings as words NAME=VALUE."""

from __future__ import annotations

import pytest

from eim_ros.core.errors import ConfigurationError
from eim_ros.core.settings import assigned, named, split_assignments
from eim_ros.learning import EIMConfig

ALIASES = {"n_components": "--experts"}


def test_names_of_flags_and_of_fields_mean_the_same() -> None:
    words = ["experts=3", "kl-bound=0.1", "--batch-size=7", "hidden_layers = 8 4"]
    values = assigned(split_assignments(words, ALIASES), EIMConfig)
    assert values == {"n_components": 3, "m_step.kl_bound": 0.1, "ratio.batch_size": 7, "ratio.hidden_layers": [8, 4]}
    assert EIMConfig.from_mapping(values).hidden_layers == (8, 4)


@pytest.mark.parametrize(
    ("word", "name", "value"),
    [
        ("kl-term=false", "kl_term", False),
        ("tolerance=1e-3", "tolerance", "1e-3"),  # YAML 1.1 takes it for text, the settings for a number
        ("hidden-layers=[8,4]", "hidden_layers", [8, 4]),
        ("hidden-layers=8,4", "hidden_layers", [8, 4]),
        ("ratio=plug-in", "ratio", "plug-in"),
        ("surrogate=yes", "surrogate", "yes"),
        ("nothing=like it", "nothing", "like it"),
    ],
)
def test_values_get_the_types_of_their_fields(word: str, name: str, value: object) -> None:
    assert assigned(split_assignments([word], ALIASES), EIMConfig) == {name: value}


def test_lines_of_a_file_take_what_words_take() -> None:
    lines = {"experts": 3, "kl-bound": "0.1", "ratio.hidden_layers": "8 4", "m_step.surrogate": "value", "n-epochs": 5}
    values = assigned(named(lines.items(), ALIASES), EIMConfig)
    assert values == {
        "n_components": 3,
        "m_step.kl_bound": 0.1,
        "ratio.hidden_layers": [8, 4],
        "m_step.surrogate": "value",
        "ratio.n_epochs": 5,
    }
    assert EIMConfig.from_mapping(assigned({"ratio.hidden_layers": 8}, EIMConfig)).hidden_layers == (8,)


@pytest.mark.parametrize("words", [["experts"], ["=3"], ["experts="], ["experts=3", "n-components=4"]])
def test_what_is_no_assignment_is_refused(words: list[str]) -> None:
    with pytest.raises(ConfigurationError, match=r"name=value|twice"):
        split_assignments(words, ALIASES)
