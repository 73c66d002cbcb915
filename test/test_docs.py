"""Python code of each page runs from top to bottom and prints the output that the page shows.

Marked commands also run. All other commands may only use existing verbs, flags, nodes, parameters, launch files,
services and extras.
"""

import dataclasses
import re
import shlex
import shutil
from dataclasses import fields as fields_of
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from eim_ros import EM, Robot, Sampler, Sphere
from eim_ros.cli import flags
from eim_ros.cli.main import EXPLAINED, VERBS, main, read_verb, verb_type
from eim_ros.cli.sample import Operation
from eim_ros.cli.train import Train
from eim_ros.core.errors import EimError
from eim_ros.core.settings import assignments, chosen
from eim_ros.kinematics import pose_from, robot_path
from eim_ros.learning import RunOptions
from eim_ros.nodes.__main__ import NODES
from eim_ros.nodes.common.process import ros_arguments
from experiments.__main__ import Run
from experiments.__main__ import main as run_experiments
from experiments.__main__ import read as read_experiment
from experiments.harness import experiment_module

ROOT = Path(__file__).resolve().parents[1]
PAGES = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md"))]
BLOCK = re.compile(r"^(<!-- run -->\n)?```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Code with these words needs ROS. The clients run in test/nodes/ik_server/test_documented_clients.py.
IN_ROS = ("rclpy", "eim_ros.nodes", "MoveItConfigsBuilder")
OTHERS = ("rosdep", "colcon", "rviz2")  # other programs
INLINE = re.compile(r"`(eim [a-z-]+ [^`]*)`")


def blocks(page: str) -> list[tuple[bool, str, str]]:
    """Return for each block of a page whether it is run, its language, and its text."""
    found = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    return [(bool(run), language, text) for run, language, text in found]


def runs_alone(text: str) -> bool:
    return not any(word in text for word in IN_ROS)


WITH_PYTHON = [page for page in PAGES if any(kind == "python" and runs_alone(text) for _, kind, text in blocks(page))]
PROGRAMS = "|".join(["eim", "make", "pip", "python -m experiments", "ros2", "source", *OTHERS, *NODES])
COMMANDS = [
    (page, line.removeprefix(".venv/bin/"))
    for page in PAGES
    for _, language, text in blocks(page)
    if not language
    for line in text.replace("\\\n", " ").splitlines()
    if re.match(rf"(\.venv/bin/)?({PROGRAMS}) ", line)
]


@pytest.mark.parametrize("page", WITH_PYTHON)
def test_python_and_tutorials_of_the_page_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copy(robot_path("panda"), "arm.urdf")
    if page == "docs/how_to/motion_priors.md":
        shutil.copy(small_prior(tmp_path), "prior.safetensors")
    namespace: dict[str, object] = {"__name__": "__main__"}
    for is_run, language, text in blocks(page):
        if "\nEXPERIMENT = " in text:
            Path("mine.py").write_text(text, encoding="utf-8")
        if language == "python" and runs_alone(text):
            if "from sklearn" in text:
                pytest.importorskip("sklearn")
            capsys.readouterr()
            exec(compile(text, page, "exec"), namespace)
        elif language == "text":  # output of the previous block
            assert capsys.readouterr().out == text
        elif is_run:
            for line in text.splitlines():
                words = shlex.split(line, comments=True)
                run = run_experiments if words[0] == "python" else main
                assert run(words[3 if words[0] == "python" else 1 :]) == 0, line


def test_right_hand_side_of_the_tables_of_other_libraries_exists(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(robot_path("panda"), "arm.urdf")
    robot = Robot("panda")
    q = robot.random(seed=0)
    X = np.random.default_rng(0).normal(size=(50, 2))
    names = {
        **{"robot": robot, "sampler": Sampler(robot), "q": q, "pose": robot.fk(q), "Robot": Robot, "Sphere": Sphere},
        **{"pose_from": pose_from, "EM": EM, "RunOptions": RunOptions, "X": X, "w": np.ones(50)},
        "fit": EM(n_components=2, seed=0).fit(X),
    }
    page = (ROOT / "docs/how_to/other_libraries.md").read_text(encoding="utf-8")
    ours = re.findall(r"^\|.*\|(.*)\|$", page, re.MULTILINE)
    expressions = [each for cell in ours for each in re.findall(r"`([^`]+)`", cell)]
    assert len(expressions) > 20
    for each in expressions:
        eval(each, dict(names))


def small_prior(folder: Path) -> Path:
    """Train the prior that the page on motion priors uses, with two joints and their start as context."""
    rows = ["time,joint_1,joint_2,label"]
    for n, phase in ((n, s / 15) for n in range(60) for s in range(16)):
        start, end = (0.3 + 0.05 * (n % 5), 0.1 * (n % 3)), (0.2 + 0.02 * (n % 7 - 3), 0.6 + 0.02 * (n % 4))
        values = (f"{a + (b - a) * phase:.4f}" for a, b in zip(start, end, strict=True))
        rows.append(f"{n + 0.75 * phase},{','.join(values)},{n}")
    (folder / "m.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    path = folder / "small.safetensors"
    assert main(["import", str(folder / "m.csv"), "--context", "start", "--output", str(folder / "m.npz")]) == 0
    words = ["--algorithm", "em", "--experts", "2", "--quiet", "--output", str(path)]
    assert main(["train", "--task", "motion", "--data", str(folder / "m.npz"), *words]) == 0
    return path


def test_every_command_is_one_that_there_is():
    wrong = [f"{page}: {line}: {reason}" for page, line in COMMANDS if (reason := fault(line))]
    assert not wrong
    assert len(COMMANDS) > 50


def test_every_flag_that_is_mentioned_is_one_that_there_is():
    wrong = []
    for page in PAGES:
        for words in INLINE.findall((ROOT / page).read_text(encoding="utf-8")):
            verb, *rest = words.split()[1:]
            known = flags_of(verb) | {"--help", "--help-all", "--help-settings"} if verb in VERBS else set()
            wrong += [f"{page}: {words}" for word in rest if word.startswith("--") and word.split("=")[0] not in known]
    assert not wrong


def test_generated_reference_covers_the_code():
    pytest.importorskip("mkdocs", reason="`make setup` installs it, colcon does not")
    from scripts import docs_reference

    text = docs_reference.command_line()
    assert [verb for verb in VERBS if f"\n## `eim {verb}`" not in f"\n{text}"] == []
    assert docs_reference.exit_codes().count("\n| ") == len(EXPLAINED)
    text = docs_reference.node_parameters()
    for name, entry in NODES.items():
        section = text.partition(f"## `{name}`")[2].partition("\n## ")[0]
        assert all(f"| `{field.name}`" in section for field in dataclasses.fields(entry.settings)), name
    text = docs_reference.interfaces()
    files = [path for folder in ("srv", "msg", "action") for path in (ROOT / folder).iterdir()]
    for path in files:
        section = text.partition(f"### `{path.stem}`\n")[2].partition("\n### ")[0]
        fields = re.findall(r"^[a-z]\S* +(\w+)", path.read_text(encoding="utf-8"), re.MULTILINE | re.IGNORECASE)
        assert all(f"| `{field}`" in section for field in fields), path.name
    assert "`n_components`" in docs_reference.learner_settings()


def fault(line: str) -> str:
    """Return the mistake in a command, or an empty text if the command is correct."""
    words = shlex.split(re.sub(r"^source <\((.*?)\)", r"\1", line), comments=True)
    words = words[: words.index(">")] if ">" in words else words
    program, *rest = words
    if rest[:3] == ["-m", "experiments", "./mine.py"]:  # the page that contains this file runs it
        return ""
    if program == "eim" or rest[:2] == ["-m", "experiments"]:
        try:
            check_settings(read_verb(rest) if program == "eim" else read_experiment(rest[2:]))
        except EimError as error:
            return str(error)
        except SystemExit as leaving:
            return "its flags" if leaving.code else ""
        return ""
    if program == "make":
        return "" if f"\n{rest[0]}:" in (ROOT / "Makefile").read_text(encoding="utf-8") else "its target"
    if program == "pip":
        extras = re.findall(r"\.\[(.*)\]", line)
        setup = (ROOT / "setup.py").read_text(encoding="utf-8") + '"all":'
        return "".join(name for extra in extras for name in extra.split(",") if f'"{name}":' not in setup)
    if program in NODES:
        return wrong_node(["eim_ros", *words])
    if program == "ros2":
        checks = {
            "run": wrong_node,
            "launch": wrong_launch,
            "param": wrong_parameter,
            "service": wrong_request,
            "action": wrong_request,
            "security": wrong_policy,
        }
        return checks[rest[0]](rest[1:])
    return "" if program in OTHERS or "source install/setup.bash" in line else "its program"


def check_settings(verb: Any) -> None:
    """Read the settings of a verb, so that a wrong name raises an error."""
    if isinstance(verb, Train):
        verb.settings()
    elif isinstance(verb, Operation):
        verb.read_settings()
    elif isinstance(verb, Run) and len(verb.names) == 1:
        chosen(experiment_module(verb.names[0]).EXPERIMENT.preset(verb.quick).settings, assignments(verb.set))


def wrong_node(words: list[str]) -> str:
    package, name, *rest = [word for word in words if word != "--help"]
    if package != "eim_ros" or name not in NODES:
        return "its node"
    kind = NODES[name].settings
    known = {field.name for field in fields_of(kind)}
    given = [word.partition(":=")[0] for word in ros_arguments(rest, lambda: kind) if ":=" in word]
    return ", ".join(set(given) - known - {"__ns"})


def wrong_launch(words: list[str]) -> str:
    package, file, *rest = [word for word in words if word != "--show-args"]
    path = ROOT / "launch" / file
    if package != "eim_ros" or not path.exists():
        return "its file"
    sources = [path, *(ROOT / "eim_ros/nodes").glob("launch*.py")]
    text = "".join(source.read_text(encoding="utf-8") for source in sources)
    names = [word.partition(":=")[0] for word in rest]
    return ", ".join(name for name in names if not re.search(rf'"{name}"|\b{name}=\(', text))


def wrong_parameter(words: list[str]) -> str:
    _, node, name, *_ = words
    return "" if name in {field.name for field in fields_of(NODES[node.strip("/")].settings)} else "its parameter"


def wrong_request(words: list[str]) -> str:
    _, _, kind, *rest = words
    if kind == "std_srvs/srv/Trigger":
        return ""
    package, folder, name = kind.split("/")
    path = ROOT / folder / f"{name}.{folder}"
    if package != "eim_ros" or not path.exists():
        return "its type"
    fields = re.findall(r"^\S+ (\w+)", path.read_text(encoding="utf-8").partition("\n---\n")[0], re.MULTILINE)
    return ", ".join(set(yaml.safe_load(rest[0]) if rest else {}) - set(fields))


def wrong_policy(words: list[str]) -> str:
    files = re.findall(r"/share/eim_ros/(\S+)", " ".join(words))
    return ", ".join(file for file in files if not (ROOT / file).is_file())


def flags_of(verb: str) -> set[str]:
    """Return the flags of a verb and of its subcommands."""
    kinds = verb_type(verb)
    return {name for kind in (kinds.values() if isinstance(kinds, dict) else [kinds]) for name in flags.flags_of(kind)}
