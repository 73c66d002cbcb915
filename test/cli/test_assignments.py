"""Settings as words NAME=VALUE."""

from __future__ import annotations

import pytest

from eim_ros.core.errors import ConfigurationError
from eim_ros.core.settings import assigned, field_types, named, split_assignments
from eim_ros.learning import EIMConfig

ALIASES = {"n_components": "--experts"}
TYPES = field_types(EIMConfig)


def test_names_of_flags_and_of_fields_mean_the_same() -> None:
    words = ["experts=3", "m-step.kl-bound=0.1", "--ratio.batch-size=7", "ratio.hidden_layers = 8 4"]
    values = assigned(split_assignments(words, ALIASES), TYPES)
    assert values == {
        "n_components": 3, "m_step.kl_bound": 0.1, "ratio.batch_size": 7, "ratio.hidden_layers": [8, 4]
    }  # fmt: skip
    assert EIMConfig.from_mapping(values).ratio.hidden_layers == (8, 4)


@pytest.mark.parametrize(
    ("word", "name", "value"),
    [
        ("kl-term=false", "kl_term", False),
        ("exact.tolerance=1e-3", "exact.tolerance", "1e-3"),  # text in YAML 1.1, a number for the settings
        ("ratio.hidden-layers=[8,4]", "ratio.hidden_layers", [8, 4]),
        ("ratio.hidden-layers=8,4", "ratio.hidden_layers", [8, 4]),
        ("ratio.estimator=plug-in", "ratio.estimator", "plug-in"),
        ("m_step.surrogate=yes", "m_step.surrogate", "yes"),
        ("nothing=like it", "nothing", "like it"),
    ],
)
def test_values_get_the_types_of_their_fields(word: str, name: str, value: object) -> None:
    assert assigned(split_assignments([word], ALIASES), TYPES) == {name: value}


def test_lines_of_a_file_take_what_words_take() -> None:
    lines = {"experts": 3, "m-step": {"kl-bound": "0.1"}, "ratio": {"hidden_layers": "8 4"}, "ratio.n-epochs": 5}
    values = assigned(named(lines.items(), ALIASES), TYPES)
    assert values == {
        "n_components": 3, "m_step.kl_bound": 0.1, "ratio.hidden_layers": [8, 4], "ratio.n_epochs": 5
    }  # fmt: skip
    single = assigned({"ratio.hidden_layers": 8}, TYPES)
    assert EIMConfig.from_mapping(single).ratio.hidden_layers == (8,)


def test_nested_and_dotted_lines_must_not_name_one_setting_twice() -> None:
    with pytest.raises(ConfigurationError, match="setting ratio.patience is given twice"):
        named({"ratio": {"patience": 3}, "ratio.patience": 4}.items(), ALIASES)


@pytest.mark.parametrize("words", [["experts"], ["=3"], ["experts="], ["experts=3", "n-components=4"]])
def test_what_is_no_assignment_is_refused(words: list[str]) -> None:
    with pytest.raises(ConfigurationError, match=r"name=value|twice"):
        split_assignments(words, ALIASES)
