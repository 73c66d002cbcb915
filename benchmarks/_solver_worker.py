"""Measure one checkout for `solver.py`, item by item, as requested on standard input.

    python _solver_worker.py CHECKOUT INPUTS

CHECKOUT holds the URDFs, which both sides share. INPUTS is a folder with one file of arrays for each robot. The
measured package is the `eim_ros` on PYTHONPATH. The models are the shipped ones of its own checkout, which have the
same parameters on both sides; the new side refuses files without a checksum. Both sides run the same calls, with one
exception: the compiled part of a solve is measured only on the new side, because its names differ on the old side.

A line "robot item" is answered by a line of JSON. It contains the CPU time of each block of calls [s] and the total
number of solutions found. A repeated request repeats the same work, so the minimum over repetitions is meaningful for
each block.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import eim_ros
from eim_ros.ik import Sampler
from eim_ros.kinematics import Robot

Block = Callable[[], Any]  # the measured call
Item = tuple[Callable[[], list[Block]], Callable[[Any], int]]  # makes the blocks; counts the solutions in one answer

SOLVES_PER_BLOCK = 50
N = 200
IS_OLD = hasattr(Robot, "load")


def items_of(robot: Robot, sampler: Sampler | None, inputs: dict[str, np.ndarray]) -> dict[str, Item]:
    """Return the items by name; the sampler's items need a model."""
    seeds, poses, roots = inputs["seeds"], inputs["poses"], inputs["roots"]
    items: dict[str, Item] = {
        "steps": (
            lambda: [
                partial(
                    robot.refine,
                    seeds,
                    pose,
                    max_iterations=10,
                    patience=100,
                    position_tolerance=1e-300,
                    orientation_tolerance=1e-300,
                )
                for pose in inputs["refined_poses"]
            ],
            lambda answer: len(answer.positions),
        ),
        "refine": (
            lambda: [partial(robot.refine, seeds, pose) for pose in inputs["refined_poses"]],
            n_converged,
        ),
        "solve": (lambda: solves(robot, inputs["solved_poses"]), lambda answers: sum(map(n_converged, answers))),
        "solve_many": (lambda: [partial(robot.solve_many, poses, np.random.default_rng(0))], n_converged),
        "spread": (
            lambda: [
                partial(robot.spread, given, pose, N - len(given), np.random.default_rng(0), step=0.45, finest=0.01)
                for given, pose in zip(roots, inputs["root_poses"], strict=True)
            ],
            len,
        ),
    }
    if hasattr(robot, "chain"):
        items["solve_compiled"] = (
            lambda: compiled_solves(robot, inputs["solved_poses"]),
            lambda answers: sum(int(converged.sum()) for _, converged, _, _ in answers),
        )
    if sampler is not None:
        items |= sampler_items(sampler, inputs["sampled_poses"], inputs["samples"])
    return items


def sampler_items(sampler: Sampler, poses: np.ndarray, samples: np.ndarray) -> dict[str, Item]:
    """Return the items for complete `sample` calls and for densities of samples (n_poses, n_samples, dof)."""
    answers = [sampler.sample(pose, 1, seed=0, order="none") for pose in poses]
    densities = [answer.density if IS_OLD else answer.densities[0] for answer in answers]
    distinct: dict[str, Any] = {"order": "none", "distinct": True} if IS_OLD else {"order": "none", "diversity": 0.85}

    def n_valid(answer: Any) -> int:
        return int(np.count_nonzero(answer.valid))

    return {
        "distinct": (
            lambda: [partial(sampler.sample, pose, N, seed=index, **distinct) for index, pose in enumerate(poses)],
            n_valid,
        ),
        "default": (
            lambda: [partial(sampler.sample, pose, N, seed=index) for index, pose in enumerate(poses)],
            n_valid,
        ),
        "density": (
            lambda: [partial(given.log_prob, rows) for given, rows in zip(densities, samples, strict=True)],
            lambda values: int(np.isfinite(values).sum()),
        ),
    }


def solves(robot: Robot, poses: np.ndarray) -> list[Block]:
    """Return blocks of calls to `Robot.solve`, one call for each pose."""
    rng = np.random.default_rng(0)

    def block(some: list[np.ndarray]) -> list[Any]:
        return [robot.solve(pose, rng) for pose in some]

    return [partial(block, list(some)) for some in in_blocks(poses)]


def compiled_solves(robot: Robot, poses: np.ndarray) -> list[Block]:
    """Return the same blocks without Python's share: argument checks and the answer object."""
    from eim_ros.solver import StepOptions  # imported here because the old side lacks it

    task, effort, rng = robot.task(poses[0]), StepOptions(1e-6, 1e-6, 60, 3), np.random.default_rng(0)
    solve = robot.chain.solve

    def block(some: list[tuple[np.ndarray, float]]) -> list[Any]:
        return [solve(task, effort, pose, 1000, seed) for pose, seed in some]

    return [partial(block, [(pose[None], rng.random()) for pose in some]) for some in in_blocks(poses)]


def in_blocks(poses: np.ndarray) -> list[np.ndarray]:
    return [poses[start : start + SOLVES_PER_BLOCK] for start in range(0, len(poses), SOLVES_PER_BLOCK)]


def n_converged(answer: Any) -> int:
    return int(np.count_nonzero(answer.converged))


def measured(item: Item) -> dict[str, Any]:
    """Return the CPU time of each block [s] and the total number of solutions found."""
    blocks, count = item
    seconds, found = [], 0
    for block in blocks():
        began = time.process_time_ns()
        answer = block()
        seconds.append(1e-9 * (time.process_time_ns() - began))
        found += count(answer)
    return {"seconds": seconds, "found": found}


def main() -> None:
    checkout, inputs = map(Path, sys.argv[1:3])
    models = Path(eim_ros.__file__).resolve().parents[1] / "config" / "models"
    items: dict[str, dict[str, Item]] = {}
    for file in sorted(inputs.glob("*.npz")):
        urdf = checkout / "urdf" / f"{file.stem}.urdf"
        robot = Robot.load(urdf) if IS_OLD else Robot(urdf)
        model = models / f"{file.stem}_pose.safetensors"
        sampler = Sampler.load(model) if model.exists() else None
        items[file.stem] = items_of(robot, sampler, dict(np.load(file)))
    names = {robot: list(each) for robot, each in items.items()}
    print(json.dumps({"source": eim_ros.__file__, "items": names}), flush=True)
    for line in sys.stdin:
        name, item = line.split()
        print(json.dumps(measured(items[name][item])), flush=True)


if __name__ == "__main__":
    main()
