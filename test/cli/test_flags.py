"""Flags of a dataclass: their types, the help, and errors in one line."""

from __future__ import annotations

import dataclasses
import inspect
from dataclasses import dataclass
from typing import Literal

import pytest

from eim_ros.cli.flags import count, flag, flags_of, listed_settings, parse, positive, switch
from eim_ros.cli.main import VERBS, verb_type
from eim_ros.core.errors import ConfigurationError
from eim_ros.ik import Constraints, Sampler
from eim_ros.learning import EIMConfig

MOST_SHOWN = 15  # maximum number of flags in the help of a verb; --help-all lists all flags


@dataclass(frozen=True, kw_only=True)
class Inner:
    """A group. More about it."""

    robot: str | None = flag(None, "A robot.")
    link: tuple[str, ...] = flag((), "A link.", repeated=True, is_expert=True)


@dataclass(frozen=True, kw_only=True)
class Outer:
    """Do something."""

    inner: Inner
    output: str = flag(text="A file.", metavar="FILE")
    samples: int = count(5, "How many.", short="-n")
    width: float = flag(0.5, "How wide [m].", read=positive)
    kind: Literal["a", "b"] = flag("a", "Which.")
    values: tuple[float, ...] | None = flag(None, "Numbers.", metavar="X [Y]")
    pair: tuple[float, float] | None = flag(None, "Two.")
    row: tuple[tuple[float, ...], ...] = flag((), "Rows.", repeated=True)
    fast: bool = switch("Whether.")
    free: bool | None = flag(None, "Yes, no, or unknown.")


def read(*words: str) -> Outer:
    found: Outer = parse(Outer, "program", words)
    return found


def test_values_have_the_types_of_their_fields() -> None:
    assert read("--output", "f") == Outer(inner=Inner(), output="f")
    words = "--output f -n 9 --width 1e-3 --kind b --fast --no-free --pair -1e-3 -inf --values -1 2"
    others = "--robot r --link x --link y --row 1 --row 2 3"
    assert read(*words.split(), *others.split()) == Outer(
        inner=Inner(robot="r", link=("x", "y")),
        output="f",
        samples=9,
        width=1e-3,
        kind="b",
        values=(-1.0, 2.0),
        pair=(-1e-3, -float("inf")),
        row=((1.0,), (2.0, 3.0)),
        fast=True,
        free=False,
    )
    assert read("r", "--output=f") == Outer(inner=Inner(robot="r"), output="f")  # the robot may be the first word


def test_help_has_defaults_and_hides_flags_of_experts(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read("--help")
    short = " ".join(capsys.readouterr().out.split())
    assert "usage: program [FLAGS] Do something." in short
    assert "-n N, --samples N How many. (default: 5)" in short
    assert "--values X [Y ...]" in short and "a group:" in short and "--link" not in short
    assert "--help-all explains 1 more flag." in short
    with pytest.raises(SystemExit):
        read("--help-all")
    assert "--link TEXT" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "the following arguments are required: --output"),
        (("--output", "f", "--samples", "0"), "--samples: must be between 1 and"),
        (("--output", "f", "--samples", "x"), "--samples: expected a whole number, got 'x'"),
        (("--output", "f", "--width", "0"), "--width: must be positive, got 0"),
        (("--output", "f", "--values"), "--values: expected at least one argument"),
        (("--output", "f", "--values", "[1", "x]"), "got 'x]'; separate several numbers by spaces"),
        (("--output", "f", "--pair", "1"), "--pair: expected 2 arguments"),
        (("--output", "f", "--kind", "c"), "--kind: invalid choice: 'c' (choose from a, b)"),
        (("--outptu", "f"), "there is no flag --outptu; did you mean --output?"),
        (("--out", "f"), "there is no flag --out; did you mean --output?"),
        (("--output", "f", "g"), "unexpected argument g"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(words: tuple[str, ...], reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(*words)
    assert reason in str(caught.value)
    assert str(caught.value).endswith("(see program --help)") and "\n" not in str(caught.value)


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_each_verb_shows_few_flags(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    kinds = verb_type(verb)
    for kind in kinds.values() if isinstance(kinds, dict) else [kinds]:
        with pytest.raises(SystemExit):
            parse(kind, verb, ["--help"])
        shown = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  -")]
        assert len(shown) <= MOST_SHOWN
        assert len(flags_of(kind)) <= 28


@pytest.mark.parametrize("verb", ["solve", "sample", "solve-all", "solve-nearest-pose", "draw", "propose", "follow"])
def test_keywords_of_python_are_flags(verb: str) -> None:
    kind = verb_type(verb)
    keywords = inspect.signature(getattr(Sampler, kind.operation)).parameters.keys() - {"self", "pose", "poses"}
    names = keywords | {field.name for field in dataclasses.fields(Constraints)} - {"links"}
    poses = ["--pose", "0", "0", "1"]
    for name in names:
        value = {"near": "0", "start": "0", "limits": "a=0:1", "fixed": "a=0", "revolutions": "one"}.get(name, "1")
        words = [f"--{name.replace('_', '-')}", *([] if name == "self_collision" else [value])]
        found = parse(kind, f"eim {verb}", [*poses, *words])
        assert found == parse(kind, f"eim {verb}", [*poses, f"--{name}", *words[1:]])  # the spelling of Python


def test_settings_given_as_flags_are_values_of_set() -> None:
    kind, pose = verb_type("sample"), ["--pose", "0", "0", "1"]
    words = [*pose, "--tolerances", "0", "-1", "inf", "--branch", "elbow=up", "--position-only", "--order=diverse"]
    found = parse(kind, "eim sample", words).settings.set
    assert found == ("tolerances=0 -1 inf", "branch.elbow=up", "position_only=true", "order=diverse")
    train = parse(verb_type("train"), "eim train", ["d.npz", "-o", "m", "--ratio.patience", "5", "--n-components", "3"])
    assert (train.data, train.output, train.set, train.experts) == ("d.npz", "m", ("ratio.patience=5",), 3)


def test_names_of_flags_are_words_with_dashes() -> None:
    found = [verb_type(verb) for verb in VERBS]
    kinds = [kind for one in found for kind in (one.values() if isinstance(one, dict) else [one])]
    flags = {name for kind in kinds for name in flags_of(kind)}
    assert "--package-path" in flags and not [name for name in flags if "_" in name]


def test_settings_are_listed_with_default_unit_and_choices() -> None:
    lines = listed_settings(EIMConfig()).splitlines()
    assert any(line.startswith("  ratio.patience=") for line in lines)
    assert any("m_step.kl_bound" in line and "[nat]" in line for line in lines)
    assert any("expert_kind=linear" in line and "one of linear, neural" in line for line in lines)
