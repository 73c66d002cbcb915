"""Settings are checked on construction, also if they come from words like NAME=VALUE or from a file."""

import dataclasses
import math
from pathlib import Path

import pytest

from eim_ros.core.errors import ConfigurationError
from eim_ros.core.settings import Settings, assignments, chosen, field_types, option, parsed, read_yaml
from eim_ros.learning import EIMConfig


@dataclasses.dataclass(frozen=True)
class Example(Settings):
    count: int = option(3, "how many", minimum=1, maximum=10)
    rate: float = option(0.5, "how fast", unit="1/s", minimum=0.0)
    verbose: bool = option(False, "whether to talk")
    kind: str = option("eim", "which algorithm", choices=("eim", "em"))
    name: str | None = option(None, "what to call it")
    widths: tuple[int, ...] = option((64, 64), "sizes of layers", minimum=1)


def test_defaults_are_valid_and_immutable():
    example = Example()
    assert (example.count, example.rate, example.name) == (3, 0.5, None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        example.count = 4  # type: ignore[misc]


def test_unknown_name_is_refused_and_known_ones_are_listed():
    with pytest.raises(ConfigurationError, match=r"cuont of Example; the settings are count, rate") as caught:
        Example.from_mapping({"cuont": 3})
    assert caught.value.value == ["cuont"]


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("count", 0, "at least 1"),
        ("count", 11, "at most 10"),
        ("count", 2.0, "must be of type int"),
        ("count", True, "must be of type int"),
        ("count", "3", "must be of type int"),
        ("count", None, "must be of type int"),
        ("rate", -1e-9, "at least 0"),
        ("rate", float("nan"), "finite"),
        ("rate", float("inf"), "finite"),
        ("rate", "fast", "must be of type float"),
        ("rate", False, "must be of type float"),
        ("verbose", 1, "must be of type bool"),
        ("verbose", "yes", "must be of type bool"),
        ("kind", "vi", "one of eim, em"),
        ("name", 5, "must be of type str"),
        ("widths", 64, "must be a list"),
        ("widths", [64, 0], "at least 1"),
        ("widths", [64, 1.5], "must be of type int"),
    ],
)
def test_bad_value_is_refused_by_name_with_the_reason(name, value, reason):
    with pytest.raises(ConfigurationError, match=f"{name} must be .*{reason.removeprefix('must be ')}"):
        Example(**{name: value})


@pytest.mark.parametrize("count", [1, 10])
def test_bounds_are_inclusive(count):
    assert Example(count=count).count == count


def test_whole_number_and_exponent_text_become_float():
    assert Example(rate=2).rate == 2.0
    assert isinstance(Example(rate=2).rate, float)
    assert Example(rate="1e-3").rate == 1e-3  # YAML 1.1 parses 1e-3 as text


def test_list_becomes_tuple_and_back():
    example = Example.from_mapping({"widths": [8, 4]})
    assert example.widths == (8, 4)
    assert example.to_mapping()["widths"] == [8, 4]


def test_yaml_file_gives_settings(tmp_path):
    path = tmp_path / "settings.yaml"
    path.write_text("count: 5\nrate: 1e-3\nwidths: [2, 3]\nname:\n", encoding="utf-8")
    assert Example.from_mapping(read_yaml(path)) == Example(count=5, rate=1e-3, widths=(2, 3))
    path.write_text("# nothing\n", encoding="utf-8")
    assert read_yaml(path) == {}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"count: [1", "is not YAML"),
        (b"- 1\n- 2\n", "must consist of lines of the form 'name: value'"),
        (b"\xff\xfe\x00", "is not YAML"),
        (b"!!python/object/apply:os.getcwd []", "is not YAML"),
    ],
)
def test_wrong_yaml_file_is_refused_in_one_line(tmp_path, content, reason):
    path = tmp_path / "settings.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=reason) as caught:
        read_yaml(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_yaml_file_is_refused_by_name(tmp_path: Path):
    with pytest.raises(ConfigurationError, match=r"cannot read settings file .*none.yaml: No such file"):
        read_yaml(tmp_path / "none.yaml")


@dataclasses.dataclass(frozen=True)
class Outer(Settings):
    size: int = option(1, "how large", minimum=1)
    inner: Example = Example(count=4)


def test_groups_are_given_nested_or_dotted():
    expected = Outer(inner=Example(count=4, rate=2.0))
    assert Outer.from_mapping({"inner": {"rate": 2.0}}) == Outer.from_mapping({"inner.rate": 2.0}) == expected
    assert Outer().replace("inner.rate", 2.0) == Outer().replace(**{"inner.rate": 2.0}) == expected
    assert expected.to_mapping()["inner"]["rate"] == 2.0
    assert Outer.from_mapping(expected.to_mapping()) == expected
    assert field_types(Outer)["inner.rate"] is float


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"inner.cuont": 3}, r"unknown setting inner.cuont of Outer; the settings are inner.count, .*mean inner.count"),
        ({"rate": 3.0}, r"unknown setting rate of Outer; the settings are size, inner.\*; did you mean inner.rate\?"),
        ({"inner": {"count": 0}}, "inner.count must be at least 1, got 0"),
        ({"inner": 3}, "inner is a group of settings, such as inner.count, got 3"),
        ({"inner": {"count": 3}, "inner.count": 3}, "setting inner.count is given twice"),
    ],
)
def test_mistakes_in_a_group_name_the_path(values, reason):
    with pytest.raises(ConfigurationError, match=reason):
        Outer.from_mapping(values)


def test_group_must_be_of_its_class():
    with pytest.raises(ConfigurationError, match="inner must be of type Example, got 3"):
        Outer(inner=3)  # type: ignore[arg-type]


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
        ({"n_components": "many"}, "n_components must be of type int, got 'many'"),
        ({"ratio.patience": 0.5}, "patience must be of type int"),
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
