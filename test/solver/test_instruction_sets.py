"""Pinocchio confirms the solutions of every instruction set. A set that cannot run is refused with a remedy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from kinematics.robots import robot_and_oracle
from solver.instruction_sets import every_instruction_set, run_with

from eim_ros.cli.main import ExitCode
from eim_ros.core import _processor, native
from eim_ros.core.errors import NotBuiltError
from eim_ros.core.native import load_native

ROBOTS = ["panda", "iiwa14", "ur5", "all_types", "followers", "planar10", "random5"]
EXACT = 1e-12
SEARCH = """
import sys
import numpy as np
from kinematics.robots import robot_and_oracle

from eim_ros import Sampler
from eim_ros.kinematics import refine, spread as continued

answers = {}
for name in sys.argv[2:]:
    robot, _ = robot_and_oracle(name)
    rng = np.random.default_rng(3)
    q = robot.random(60, rng)
    poses = robot.fk(q)
    answers[name + "_q"], answers[name + "_forward"], answers[name + "_jacobian"] = q, poses, robot.jacobian(q)
    solved = Sampler(robot).solve_batch(poses[:20], seed=3)
    answers[name + "_solved"], answers[name + "_converged"] = solved.q, solved.n_valid > 0
    spread = continued(robot, q[:1], poses[0], 40, rng, finest=0.01)
    refined = refine(robot, q, poses[0])
    answers[name + "_of_one_pose"] = np.concatenate([spread, refined.positions[refined.converged], q[:1]])
    answers[name + "_descended"] = robot.chain.descend(
        robot.task(poses[0]), answers[name + "_of_one_pose"], q[1], np.ones(robot.dof), robot.continuous
    )
np.savez(sys.argv[1], **answers)
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, np.ndarray]]:
    """Return a cache of results by instruction set, which `found_with` fills when needed."""
    return {}


def found_with(instruction_set: str, answers: dict, folder: Path) -> dict[str, np.ndarray]:
    if instruction_set not in answers:
        target = folder / f"{instruction_set}.npz"
        process = run_with(instruction_set, SEARCH, str(target), *ROBOTS)
        assert process.returncode == 0, process.stderr
        with np.load(target) as content:
            answers[instruction_set] = dict(content)
    return answers[instruction_set]


@every_instruction_set
@pytest.mark.parametrize("name", ROBOTS)
def test_kinematics_are_pinocchios(instruction_set: str, name: str, answers: dict, tmp_path: Path) -> None:
    found, (_, oracle) = found_with(instruction_set, answers, tmp_path), robot_and_oracle(name)
    for i, q in enumerate(found[f"{name}_q"]):
        np.testing.assert_allclose(found[f"{name}_forward"][i], oracle.forward(q), rtol=0, atol=EXACT)
        np.testing.assert_allclose(found[f"{name}_jacobian"][i], oracle.jacobian(q), rtol=0, atol=EXACT)


@every_instruction_set
@pytest.mark.parametrize("name", ROBOTS)
def test_solutions_are_right_by_pinocchio(instruction_set: str, name: str, answers: dict, tmp_path: Path) -> None:
    found, (robot, oracle) = found_with(instruction_set, answers, tmp_path), robot_and_oracle(name)
    poses, converged = found[f"{name}_forward"], found[f"{name}_converged"]
    assert converged.mean() > 0.9
    rows = list(zip(found[f"{name}_solved"], poses[:20][converged], strict=True))
    rows += [(q, poses[0]) for part in ("of_one_pose", "descended") for q in found[f"{name}_{part}"]]
    for q, pose in rows:
        position, angle = oracle.errors(q, pose)
        assert position <= 1e-6 + 1e-9
        assert angle <= 1e-6 + 1e-7  # near 0, the oracle's logarithm has an error of about 1e-8
        assert robot.within_limits(q).all()


@every_instruction_set
def test_each_can_be_forced(instruction_set: str) -> None:
    program = "import eim_ros.solver as s; print(s.Chain.__module__)"
    process = run_with(instruction_set, program)
    assert process.stdout.strip().endswith(f"_solver_{instruction_set}"), process.stderr


def test_the_best_that_this_processor_has_is_built_and_loaded() -> None:
    program = "import eim_ros.solver as s; print(s.Chain.__module__)"
    best = next(name for name in native.INSTRUCTION_SETS if _processor.runs_here(name))
    process = run_with("", program)
    assert process.stdout.strip().endswith(f"_solver_{best}"), process.stderr


def test_an_unknown_instruction_set_is_refused_and_the_known_ones_named() -> None:
    process = run_with("avx512", "import eim_ros.solver")
    assert process.returncode != 0
    assert "ImportError: EIM_ROS_INSTRUCTION_SET is 'avx512', expected one of avx2, baseline" in process.stderr


def processor_with(*instruction_sets: str) -> Callable[[str], bool]:
    """Return a replacement for `runs_here` that simulates a processor with these instruction sets."""
    return lambda instruction_set: instruction_set in instruction_sets


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create an importable package without modules, and pretend that the processor has AVX2."""
    folder = tmp_path / "arms"
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv(native.VARIABLE, raising=False)
    monkeypatch.setattr(_processor, "runs_here", processor_with("avx2", "baseline"))
    for name in [name for name in sys.modules if name.partition(".")[0] == "arms"]:
        monkeypatch.delitem(sys.modules, name)
    return folder


@pytest.fixture
def without_avx2(package: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pretend that the processor lacks AVX2, and return the same package."""
    monkeypatch.setattr(_processor, "runs_here", processor_with("baseline"))
    return package


def build(package: Path, *instruction_sets: str) -> None:
    """Write a module per instruction set. Importing a module that cannot run here kills the process with SIGILL."""
    for name in instruction_sets:
        code = "" if native._processor()(name) else "import os, signal\nos.kill(os.getpid(), signal.SIGILL)"
        (package / f"_module_{name}.py").write_text(code)


def test_the_best_module_that_runs_here_is_loaded_and_no_other_touched(package: Path) -> None:
    build(package, "avx2", "baseline")
    assert load_native("arms._module").__name__ == "arms._module_avx2"
    assert "arms._module_baseline" not in sys.modules


def test_a_module_that_does_not_run_here_is_not_touched(without_avx2: Path) -> None:
    build(without_avx2, "avx2", "baseline")
    assert load_native("arms._module").__name__ == "arms._module_baseline"
    assert "arms._module_avx2" not in sys.modules


def test_the_one_module_of_this_machine_needs_no_baseline(package: Path) -> None:
    """`colcon build` compiles only the best module of this machine."""
    build(package, "avx2")
    assert load_native("arms._module").__name__ == "arms._module_avx2"


def test_modules_for_other_processors_are_refused_in_one_line_with_the_cure(without_avx2: Path) -> None:
    build(without_avx2, "avx2")
    with pytest.raises(NotBuiltError) as error:
        load_native("arms._module")
    message = str(error.value)
    assert message.startswith(
        "the compiled module arms._module was built for processors with avx2, which this processor"
    )
    assert "build it on this machine" in message
    assert "-DEIM_INSTRUCTION_SETS=all" in message
    assert "\n" not in message
    assert "arms._module_avx2" not in sys.modules


def test_import_on_a_processor_without_what_was_compiled_ends_with_the_cure_in_one_line() -> None:
    """If the processor supports none of the compiled instruction sets, no compiled module of eim_ros is loaded."""
    program = (
        "import sys; from eim_ros.core import _processor; _processor.runs_here = lambda name: False; "
        "from eim_ros.cli.main import main; sys.exit(main(['sample', '--robot', 'planar3', '--pose', '1', '0', '0']))"
    )
    process = run_with("", program)
    assert process.returncode == ExitCode.NOT_INSTALLED
    assert process.stderr.count("\n") == 1
    assert "eim sample: the compiled module eim_ros.solver._solver was built for processors with" in process.stderr
    assert "-DEIM_INSTRUCTION_SETS=all" in process.stderr


def test_one_that_the_processor_lacks_is_refused(without_avx2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(without_avx2, "avx2", "baseline")
    monkeypatch.setenv(native.VARIABLE, "avx2")
    with pytest.raises(ImportError, match="EIM_ROS_INSTRUCTION_SET is 'avx2', which this processor does not support"):
        load_native("arms._module")


def test_one_that_was_not_built_is_refused_only_where_it_is_forced(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(package, "baseline")
    assert load_native("arms._module").__name__ == "arms._module_baseline"
    monkeypatch.setenv(native.VARIABLE, "avx2")
    with pytest.raises(ImportError, match=r"EIM_ROS_INSTRUCTION_SET is 'avx2', but arms\._module was not built"):
        load_native("arms._module")


def test_a_missing_build_names_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(native.VARIABLE, raising=False)  # a requested set leads to another error
    with pytest.raises(
        ImportError, match=r"json\._missing is missing.*`make setup`.*C\+\+20 compiler.*apt install g\+\+"
    ):
        load_native("json._missing")


def test_one_of_older_sources_is_refused_with_what_it_lacks_and_the_cure(package: Path) -> None:
    (package / "_module_avx2.py").write_text("windings = None")
    assert load_native("arms._module", ["windings"]).__name__ == "arms._module_avx2"
    with pytest.raises(NotBuiltError, match=r"older than the Python.*lacks Chain, Task: build it again.*`make setup`"):
        load_native("arms._module", ["Chain", "windings", "Task"])


def test_the_command_line_tells_of_one_of_older_sources_in_a_line() -> None:
    """The compiled solver seems to lack names that its Python code imports."""
    program = (
        "import sys, eim_ros.core.native as native; best = native._best; "
        "native._best = lambda name: type(best(name))('eim_ros.solver._solver_avx2'); "
        "from eim_ros.cli.main import main; sys.exit(main(['sample', '--robot', 'planar3', '--pose', '1', '0', '0']))"
    )
    process = run_with("", program)
    assert process.returncode == ExitCode.NOT_INSTALLED
    assert process.stderr.count("\n") == 1
    assert "eim sample: the compiled module eim_ros.solver._solver_avx2 is older" in process.stderr


def test_what_an_unknown_processor_has_is_the_baseline() -> None:
    assert _processor.runs_here("baseline")
    assert not _processor.runs_here("avx1024")
    assert not _processor.runs_here("")
