"""Flags derived from settings: one per field of all classes, typed, with every default told."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import pytest

from eim_ros.cli.choices import ALGORITHMS, CHOICES, chosen
from eim_ros.cli.options import add_settings_flags, given_settings
from eim_ros.core.errors import ConfigurationError
from eim_ros.core.settings import Settings, described, option
from eim_ros.learning import EIMConfig


@dataclass(frozen=True)
class First(Settings):
    n_points: int = option(3, "how many", minimum=1)
    step: float = option(0.5, "how far", unit="m")
    widths: tuple[int, ...] = option((4, 5), "how wide")
    kind: str = option("a", "which", choices=("a", "b"))
    fast: bool = option(False, "whether")


@dataclass(frozen=True)
class Second(Settings):
    n_points: int = option(7, "how many", minimum=1)
    only_here: int = option(1, "of the second")


def parser_of(*classes: type[Settings]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    add_settings_flags(parser, {cls.__name__: described(cls()) for cls in classes}, {"n_points": "--points"})
    return parser


def test_only_what_is_given_is_a_setting() -> None:
    parser = parser_of(First, Second)
    assert given_settings(parser.parse_args([])) == {}
    words = ["--points", "9", "--step", "2", "--widths", "1", "2", "3", "--kind", "b", "--fast", "--only-here", "0"]
    assert given_settings(parser.parse_args(words)) == {
        "n_points": 9, "step": 2.0, "widths": [1, 2, 3], "kind": "b", "fast": True, "only_here": 0,
    }  # fmt: skip
    assert given_settings(parser.parse_args(["--no-fast"])) == {"fast": False}


def test_field_has_its_alias_and_its_own_name() -> None:
    parser = parser_of(First)
    assert given_settings(parser.parse_args(["--n-points", "4"])) == given_settings(
        parser.parse_args(["--points", "4"])
    )


def test_help_tells_units_and_the_default_of_each_class() -> None:
    text = " ".join(parser_of(First, Second).format_help().split())
    assert "how many (default 3 of First, 7 of Second)" in text
    assert "how far [m] (default of First 0.5)" in text or "how far [m] (default 0.5)" in text


def test_given_settings_build_the_class() -> None:
    args = parser_of(First).parse_args(["--widths", "8"])
    assert First.from_mapping(given_settings(args)).widths == (8,)
    with pytest.raises(ConfigurationError, match="n_points must be at least 1"):
        First.from_mapping(given_settings(parser_of(First).parse_args(["--points", "0"])))


def test_every_setting_of_the_learners_has_a_flag() -> None:
    parser = argparse.ArgumentParser()
    add_settings_flags(parser, {name: choice.settings() for name, choice in CHOICES.items()}, {})
    flags = {action.dest.removeprefix("setting_") for action in parser._actions}
    for choice in CHOICES.values():
        assert set(choice.settings()) <= flags
    words = ["--ratio.patience", "5", "--m-step.gating.kl-bound", "0.1"]
    given = given_settings(parser.parse_args(words))
    assert given == {"ratio.patience": 5, "m_step.gating.kl_bound": 0.1}
    config = CHOICES["eim"].replaced(given).learner
    assert config == EIMConfig.kinematic(**given)


def test_settings_without_an_effect_have_no_flag() -> None:
    assert "exact.temperature" not in CHOICES["eim"].settings()
    assert "ratio.patience" not in CHOICES["known-density"].settings()
    assert "ratio.auxiliary.n_states" in CHOICES["known-density"].settings()


def test_groups_of_a_task_are_settings_too() -> None:
    changed = CHOICES["eim"].replaced({"smoothing.sigma_decay": 0.5, "n_components": 3})
    training = changed.training(4)
    assert (training.smoothing.sigma_decay, training.learner.n_components) == (0.5, 3)
    with pytest.raises(ConfigurationError, match=r"motion.n_functions must be at least 1"):
        CHOICES["em --task motion"].replaced({"motion.n_functions": 0})


def test_names_map_to_the_settings_of_the_learners() -> None:
    assert ALGORITHMS == ("eim", "em", "truncated-em", "known-density")
    assert {chosen("ik", name) for name in ALGORITHMS} == set(ALGORITHMS)
    assert chosen("ik", "eim", kinematics=False) == "eim --no-kinematics"
    assert chosen("motion", "em") == "em --task motion"
