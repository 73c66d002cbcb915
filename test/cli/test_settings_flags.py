"""Flags derived from settings: one per field, typed, with its default, also of nested groups."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from eim_ros.cli.options import flags_of, parse_settings
from eim_ros.cli.train import default_settings, learner_of
from eim_ros.core.errors import ConfigurationError
from eim_ros.core.settings import Settings, field_types, option
from eim_ros.ik import SmoothingConfig
from eim_ros.learning import EIMConfig, EMConfig, TruncatedEMConfig
from eim_ros.motion import MotionConfig


@dataclass(frozen=True)
class First(Settings):
    n_points: int = option(3, "how many", minimum=1)
    step: float = option(0.5, "how far", unit="m")
    widths: tuple[int, ...] = option((4, 5), "how wide")
    kind: str = option("a", "which", choices=("a", "b"))
    fast: bool = option(False, "whether")
    limit: float | None = option(None, "largest")


class Group(Settings):
    """Settings that hold settings, built without the checks of the base class."""

    def __post_init__(self) -> None:
        pass


@dataclass(frozen=True)
class Outer(Group):
    first: First = First()
    n: int = option(1, "how many of them")


def read(*words: str, default: Settings = First()) -> Settings:
    return parse_settings(default, "program", words, {"n_points": "--points"})


def test_flags_replace_the_values_of_the_default() -> None:
    default = First(step=2.0, kind="b")
    assert read(default=default) == default
    words = ["--points", "9", "--widths", "1", "2", "3", "--fast", "--limit", "-1e-3"]
    assert read(*words, default=default) == First(9, 2.0, (1, 2, 3), "b", True, -1e-3)
    assert read("--no-fast", default=First(fast=True)) == First()


def test_field_has_its_alias_and_its_own_name() -> None:
    assert read("--n-points", "4") == read("--points", "4") == First(n_points=4)


def test_groups_have_dotted_flags() -> None:
    assert read("--first.step", "3", "--n", "2", default=Outer()) == Outer(First(step=3.0), 2)
    with pytest.raises(ConfigurationError, match=r"--first.stepp; did you mean --first.step"):
        read("--first.stepp", "3", default=Outer())


def test_help_tells_units_choices_and_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read("--help", default=First(n_points=7))
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "--points NUMBER, --n-points NUMBER how many (default: 7)" in text
    assert "how far [m] (default: 0.5)" in text
    assert "--kind {a,b}" in text


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--points", "0"], "n_points must be at least 1"),
        (["--points", "x"], "--points/--n-points: expected a whole number, got 'x'"),
        (["--step", "x"], "--step: expected a number, got 'x'"),
        (["--widths", "1", "x"], "--widths: expected a whole number, got 'x'"),
        (["--widths"], "--widths: expected at least one value"),
        (["--kind", "c"], "--kind: invalid choice: 'c'"),
        (["--ponits", "1"], "there is no flag --ponits; did you mean --points"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(words: list[str], reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(*words)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_field_of_the_learners_has_a_flag() -> None:
    for settings in (default_settings("ik", "eim", True), default_settings("motion", "em", True), EIMConfig()):
        known = flags_of(type(settings))
        for name in field_types(type(settings)):
            assert f"--{name.replace('_', '-')}" in known


def test_names_map_to_the_settings_of_the_learners() -> None:
    known = default_settings("ik", "known-density", kinematics=True)
    assert learner_of(known) == EIMConfig.known_kinematics()
    assert known.smoothing.sigma_decay == 0.95
    for kinematics in (True, False):
        assert default_settings("ik", "em", kinematics) == EMConfig()
    assert default_settings("ik", "truncated-em", kinematics=True) == TruncatedEMConfig()
    kinematic = default_settings("ik", "eim", kinematics=True)
    assert (learner_of(kinematic), kinematic.smoothing) == (EIMConfig.kinematic(), SmoothingConfig())
    assert default_settings("ik", "eim", kinematics=False) == EIMConfig()
    motion = default_settings("motion", "em", kinematics=True)
    assert (learner_of(motion), motion.motion) == (EMConfig(n_components=10), MotionConfig())
