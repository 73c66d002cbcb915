"""C++ solver compared with the numba kernels that it replaced, in one run: CPU time on one thread.

    python -m benchmarks.solver [--old FOLDER] [--rounds 20] [--output benchmarks/results/solver.txt]

The old side is the last commit with numba, from a checkout or from the repository's history (extracted into build/).
Each side is a separate process; the new side has one for each instruction set. They take turns at each item, and the
shortest time over all rounds counts for each block of calls. All sides share URDFs, seeds and poses. Each loads the
shipped models of its checkout, which have the same parameters. At the first run, numba compiles for this processor,
which takes two minutes and is not measured; its cache stays in the checkout. To compile for the
instructions that the new side uses, too:

    NUMBA_CPU_NAME=haswell NUMBA_CPU_FEATURES=+avx,+avx2,+fma python -m benchmarks.solver --instruction-sets avx2

Items use reachable full poses from uniform random configurations. A trace needs a redundant arm, and sampling and
densities need a shipped model; the UR5 has neither.

10 steps      1000 seeds, 10 steps of the refiner each (tolerances 1e-300), per seed
refined       1000 seeds to 1e-6 m and 1e-6 rad, defaults, per seed
one solve     `Robot.solve` from uniform seeds, one call for each pose; "compiled part" excludes Python's share
2000 solves   `Robot.solve_many`, one call, per pose
trace         `Robot.spread` from 10 solutions to 200 along the self-motion, per solution found
200 distinct  `Sampler.sample(pose, 200)` with a shipped model, order "none" and diversity 0.85, the default of the old
              side, per solution
200, default  `Sampler.sample(pose, 200)` without options, per solution; the old side orders by density and repeats some
density       log-density of 200 samples, per sample

"found" counts converged or found solutions over all blocks: old, new.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import eim_ros
from benchmarks._machine import instruction_sets, load_average, processor, versions
from eim_ros.ik import Sampler
from eim_ros.kinematics import Robot

COMMIT = "83e4381310cdef3357d08fe7df7bd742f4272202"
ROOT = Path(__file__).resolve().parents[1]
WORKER = Path(__file__).with_name("_solver_worker.py")
ROBOTS = ("panda", "iiwa14", "ur5")
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

N_SEEDS, N_REFINED, N_SOLVED, N_MANY, N_ROOTED, N_SAMPLED = 1000, 8, 1000, 2000, 20, 60
N_ROOTS, N = 10, 200

# Items of the worker: name in the table, and the divisor of the time (None: the number of solutions found).
ITEMS: dict[str, tuple[str, int | None]] = {
    "steps": ("10 steps", N_SEEDS * N_REFINED),
    "refine": ("refined", N_SEEDS * N_REFINED),
    "solve": ("one solve", N_SOLVED),
    "solve_compiled": ("  compiled part", N_SOLVED),
    "solve_many": ("2000 solves", N_MANY),
    "spread": ("trace", None),
    "distinct": ("200 distinct", None),
    "default": ("200, default", None),
    "density": ("density", N * N_SAMPLED),
}


@dataclass
class Side:
    """Process of one side, with the shortest time of each block of its items."""

    label: str
    process: subprocess.Popen[str]
    items: dict[str, list[str]] = field(default_factory=dict)
    seconds: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)
    found: dict[tuple[str, str], int] = field(default_factory=dict)

    def ask(self, robot: str, item: str) -> dict[str, Any]:
        assert self.process.stdin
        print(robot, item, file=self.process.stdin, flush=True)
        return self.answer()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the process of side {self.label!r} ended with {self.process.wait()}")
        return dict(json.loads(line))

    def measure(self, robot: str, item: str) -> None:
        answer, key = self.ask(robot, item), (robot, item)
        seconds = np.array(answer["seconds"])
        self.seconds[key] = np.minimum(self.seconds.get(key, np.inf), seconds)
        self.found[key] = answer["found"]

    def microseconds(self, robot: str, item: str) -> float | None:
        if (robot, item) not in self.seconds:
            return None
        parts = ITEMS[item][1] or self.found[robot, item]
        return 1e6 * float(self.seconds[robot, item].sum()) / parts if parts else None


@contextmanager
def side(label: str, checkout: Path, shared: Path, inputs: Path, instruction_set: str = "") -> Iterator[Side]:
    """Start a process with the `eim_ros` of a checkout; all sides share the URDFs."""
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": str(checkout), "EIM_ROS_INSTRUCTION_SET": instruction_set}
    command = [sys.executable, str(WORKER), str(shared), str(inputs)]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        it = Side(label, process)
        told = it.answer()
        if checkout not in Path(told["source"]).resolve().parents:
            raise SystemExit(f"side {label!r} should measure {checkout}, but imported {told['source']}")
        it.items = told["items"]
        yield it


def old_checkout(folder: Path | None) -> Path:
    """Return the given folder, or extract the old commit from the repository's history."""
    checkout = (folder or ROOT / "build" / "solver_before").resolve()
    if not (checkout / "eim_ros").is_dir():
        if folder:
            raise SystemExit(f"{folder} is no checkout of {COMMIT}")
        archive = subprocess.run(["git", "-C", str(ROOT), "archive", COMMIT], stdout=subprocess.PIPE, check=False)
        if archive.returncode:
            raise SystemExit(f"commit {COMMIT} is not in the history here: name a checkout of it by --old")
        checkout.mkdir(parents=True)
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
            files.extractall(checkout)
    return checkout


def write_inputs(name: str, shared: Path, folder: Path, rng: np.random.Generator) -> None:
    """Write the inputs of one robot, which all sides share."""
    robot = Robot(shared / "urdf" / f"{name}.urdf")
    model = ROOT / "config" / "models" / f"{name}_pose.safetensors"

    def reachable(n: int) -> np.ndarray:
        return robot.fk(robot.random(n, rng))

    root_poses: list[np.ndarray] = []
    roots: list[np.ndarray] = []
    while robot.dof > 6 and len(roots) < N_ROOTED:
        (pose,) = reachable(1)
        refined = robot.refine(robot.random(100, rng), pose)
        solutions = refined.positions[refined.converged]
        if len(solutions) >= N_ROOTS:
            root_poses.append(pose)
            roots.append(solutions[:N_ROOTS])
    sampled_poses = reachable(N_SAMPLED)
    samples = []
    if model.exists():
        sampler = Sampler.load(model)
        for index, pose in enumerate(sampled_poses):
            drawn = sampler.sample(pose, N, order="none", seed=index).q
            samples.append(np.resize(drawn, (N, robot.dof)))
    np.savez(
        folder / f"{name}.npz",
        seeds=robot.random(N_SEEDS, rng),
        refined_poses=reachable(N_REFINED),
        solved_poses=reachable(N_SOLVED),
        poses=reachable(N_MANY),
        root_poses=np.array(root_poses),
        roots=np.array(roots),
        sampled_poses=sampled_poses,
        samples=np.array(samples),
    )


def table(robot: str, sides: list[Side]) -> list[str]:
    old, *new = sides
    head = "".join(f"{each.label:>12}{'ratio':>8}" for each in new)
    lines = ["", f"{robot:16}{'found':>15}{'old us':>10}{head}"]
    for item, (name, _) in ITEMS.items():
        if not any(each.found.get((robot, item)) for each in new):
            continue
        before = old.microseconds(robot, item)
        found = f"{old.found.get((robot, item), '-')}, {new[-1].found[robot, item]}"
        line = f"{name:16}{found:>15}" + (f"{before:10.3f}" if before else f"{'-':>10}")
        for each in new:
            now = each.microseconds(robot, item)
            assert now
            line += f"{now:12.3f}" + (f"{now / before:8.2f}" if before else f"{'-':>8}")
        lines.append(line)
    return lines


def commit_of(folder: Path) -> str:
    """Return the commit of a checkout, marked if files were changed."""
    described = subprocess.run(
        ["git", "-C", str(folder), "describe", "--always", "--dirty", "--exclude=*"],
        capture_output=True,
        text=True,
        check=False,
    )
    return described.stdout.strip() or "no commit known"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", type=Path, metavar="FOLDER", help=f"checkout of {COMMIT[:7]}")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--instruction-sets", nargs="+", default=instruction_sets(), metavar="NAME")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    checkout, load_before = old_checkout(args.old), load_average()
    with ExitStack() as stack:
        inputs = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for index, name in enumerate(ROBOTS):
            write_inputs(name, checkout, inputs, np.random.default_rng((args.seed, index)))
        package = Path(eim_ros.__file__).resolve().parents[1]
        sides = [stack.enter_context(side("old", checkout, checkout, inputs))]
        sides += [stack.enter_context(side(name, package, checkout, inputs, name)) for name in args.instruction_sets]
        print("warming up; numba compiles", file=sys.stderr, flush=True)
        for each in sides:
            for name, items in each.items.items():
                for item in items:
                    each.ask(name, item)
        for turn in range(args.rounds):
            for name in ROBOTS:
                for item in ITEMS:
                    for place in range(len(sides)):
                        each = sides[(place + turn) % len(sides)]
                        if item in each.items[name]:
                            each.measure(name, item)
        tables = [line for name in ROBOTS for line in table(name, sides)]
        for each in sides:
            assert each.process.stdin
            each.process.stdin.close()
    lines = [
        f"The solver in C++ ({commit_of(ROOT)}) against the numba kernels ({COMMIT[:7]}), CPU time [us], one thread",
        f"seed {args.seed}, the shortest of {args.rounds} rounds; {processor()}, load {load_before} before, "
        f"{load_average()} after",
        f"Python {platform.python_version()}, {versions(['numpy', 'torch', 'numba'])}, which compiled for "
        f"{os.environ.get('NUMBA_CPU_NAME') or 'this processor'}",
        *tables,
    ]
    print("\n".join(lines), flush=True)
    if args.output:
        args.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
