"""Compute hashes of about 500 answers, which must be the same on every processor (test/ik/test_same_answers.py).

    python scripts/same_answers.py           print the hashes of the solver that is loaded here, as JSON
    python scripts/same_answers.py --renew   write them to test/ik/same_answers.json, if all instruction sets agree

Renew the hashes only after a change that is meant to change answers, such as other random numbers. Poses are rounded
numbers that do not depend on the solver. Single requests use only poses within reach, because other poses would take
the full timeout.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros import Sampler
from eim_ros.core._processor import runs_here
from eim_ros.core.native import INSTRUCTION_SETS, VARIABLE
from eim_ros.kinematics import pose_from

FILE = Path(__file__).resolve().parents[1] / "test/ik/same_answers.json"
TIMEOUT = 600.0  # [s]; long enough that no answer depends on time
# x, y, z [m], roll, pitch, yaw [rad]
POSES = [
    (0.42, 0.11, 0.35, 3.1, 0.1, 0.4),
    (-0.31, 0.36, 0.52, 2.2, -0.4, 1.3),
    (0.25, -0.45, 0.61, -1.4, 0.7, -2.1),
    (0.5, 0.0, 0.4, 3.141592653589793, 0.0, 0.0),
    (-0.22, -0.37, 0.28, 1.9, 0.3, 2.8),
    (0.12, 0.53, 0.47, -2.7, -0.6, 0.9),
    (0.38, 0.29, 0.22, 2.9, 0.2, -0.7),
    (-0.47, 0.05, 0.66, 0.8, 1.1, -1.6),
]
# six-joint arm without a closed form: origins and axes of its joints, and its tip
GENERAL_6R = [
    ((0.0, 0.0, 0.15), (0.1, 0.0, 0.0), (0, 0, 1)),
    ((0.08, 0.02, 0.17), (0.3, -0.2, 0.1), (0, 1, 0)),
    ((0.31, 0.05, 0.04), (-0.4, 0.2, 0.3), (0, 1, 0)),
    ((0.24, -0.06, 0.03), (0.2, 0.5, -0.1), (1, 0, 0)),
    ((0.11, 0.04, -0.05), (0.6, -0.3, 0.2), (0, 1, 0)),
    ((0.07, -0.03, 0.06), (-0.2, 0.4, 0.5), (1, 0, 0)),
]


def general_6r() -> str:
    """Return the URDF of the arm without a closed form."""
    lines = ['<robot name="general_6r">', *(f'<link name="link_{i}"/>' for i in range(len(GENERAL_6R) + 2))]
    for i, (*origin, axis) in enumerate(GENERAL_6R):
        xyz, rpy, along = (" ".join(map(str, values)) for values in (*origin, axis))
        lines.append(
            f'<joint name="joint_{i}" type="revolute"><parent link="link_{i}"/><child link="link_{i + 1}"/>'
            f'<origin xyz="{xyz}" rpy="{rpy}"/><axis xyz="{along}"/>'
            '<limit lower="-3.1" upper="3.1" velocity="1" effort="1"/></joint>'
        )
    lines.append(
        f'<joint name="flange" type="fixed"><parent link="link_{len(GENERAL_6R)}"/>'
        f'<child link="link_{len(GENERAL_6R) + 1}"/><origin xyz="0.02 0.01 0.09" rpy="0.1 0.2 0.3"/></joint></robot>'
    )
    return "\n".join(lines)


def samplers() -> Iterator[tuple[str, Sampler]]:
    """Yield arms of each kind by name: closed forms, self-motions with and without a closed form, elimination."""
    for name in ("ur5e", "panda", "iiwa14", "gen3"):
        yield name, Sampler(name)
    yield "general_6r", Sampler(general_6r())
    yield "panda_table", Sampler.load("panda_table")


def operations(sampler: Sampler) -> dict[str, tuple[list[int], Callable[[int], Any]]]:
    """Return operations by name: indices of poses, and a function from the index of a pose to the answer."""
    poses = np.array([pose_from(row[:3], rpy=row[3:]) for row in POSES])
    robot, n = sampler.robot, len(POSES)
    near = np.random.default_rng(0).integers(-100, 100, (n, robot.dof)) / 64
    posture = dict(zip(robot.joint_names[:2], (0.25, -0.5), strict=True))
    time = {"timeout": TIMEOUT}
    reached = np.flatnonzero(sampler.solve_batch(poses, seed=0, **time).n_per_pose).tolist()
    found: dict[str, tuple[list[int], Callable[[int], Any]]] = {
        "solve": (reached, lambda i: sampler.solve(poses[i], seed=i, **time)),
        "near": (reached, lambda i: sampler.solve(poses[i], near=near[i], seed=i, **time)),
        "sample 5": (reached, lambda i: sampler.sample(poses[i], 5, seed=i, **time)),
        "sample 20": (reached, lambda i: sampler.sample(poses[i], 20, seed=i, **time)),
        "sample 100": (reached, lambda i: sampler.sample(poses[i], 100, seed=i, **time)),
        "manipulability": (reached, lambda i: sampler.sample(poses[i], 20, order="manipulability", seed=i, **time)),
        "posture": (reached, lambda i: sampler.sample(poses[i], 10, posture=posture, seed=i, **time)),
        "position": (list(range(len(poses))), lambda i: sampler.sample(poses[i, :3, 3], 10, seed=i, **time)),
        "solve_all": (reached, lambda i: sampler.solve_all(poses[i], seed=i, **time)),
        "certified": (reached[:2], lambda i: sampler.solve_all(poses[i], seed=i, guarantee="certified", **time)),
        "solve_batch": ([0], lambda i: sampler.solve_batch(poses, seed=i, **time)),
        "sample_batch": ([0], lambda i: sampler.sample_batch(poses, 10, seed=i, **time)),
    }
    if robot.name == "ur5e":  # a pose with a free angle
        aligned = robot.fk(np.where(np.arange(6) == 4, 0.0, near))
        found["free, solve_all"] = (list(range(n)), lambda i: sampler.solve_all(aligned[i], seed=i, **time))
        found["free, near"] = (list(range(n)), lambda i: sampler.solve(aligned[i], near=near[i], seed=i, **time))
        found["free, sample"] = (list(range(n)), lambda i: sampler.sample(aligned[i], 20, seed=i, **time))
    if not sampler.n_experts:
        found["draw"] = (reached[:3], lambda i: sampler.draw(poses[i], 50, seed=i, **time))
    return found


def hashes() -> dict[str, str]:
    """Return a hash of the configurations of each answer."""
    result = {}
    for name, sampler in samplers():
        for label, (indices, operation) in operations(sampler).items():
            for i in indices:
                q: npt.NDArray[np.float64] = np.asarray(operation(i).q, dtype="<f8")
                content = str(q.shape).encode() + (q + 0.0).tobytes()
                result[f"{name}, {label}, {i}"] = hashlib.sha256(content).hexdigest()[:12]
    return result


def hashes_with(instruction_set: str) -> dict[str, str]:
    """Compute the hashes of the solver for an instruction set in a new process."""
    environment = {**os.environ, VARIABLE: instruction_set, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, check=False)
    if process.returncode:
        raise RuntimeError(f"{instruction_set}: {process.stderr.strip()}")
    found: dict[str, str] = json.loads(process.stdout)
    return found


def differing(first: dict[str, str], second: dict[str, str]) -> list[str]:
    """Return the labels of answers that differ, or that only one side contains."""
    return sorted(label for label in first.keys() | second.keys() if first.get(label) != second.get(label))


def renew() -> None:
    """Write the hashes. Fail if instruction sets disagree."""
    found = {name: hashes_with(name) for name in INSTRUCTION_SETS if runs_here(name)}
    best, *others = found
    for other in others:
        if labels := differing(found[best], found[other]):
            raise SystemExit(f"{best} and {other} differ in {len(labels)} answers: {'; '.join(labels[:10])}")
    FILE.write_text(json.dumps(found[best], indent=0) + "\n", encoding="utf-8")
    print(f"{len(found[best])} answers, the same with {' and '.join(found)}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--renew"]:
        renew()
    else:
        print(json.dumps(hashes(), indent=0))
