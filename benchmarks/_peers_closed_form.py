"""Peers of inverse kinematics that solve in closed form; see `_peers.py`."""

from __future__ import annotations

import contextlib
import importlib.util
import io
from collections.abc import Callable
from types import ModuleType

import numpy as np

from benchmarks._peers_case import Case, Solver, Unsupported, loaded
from eim_ros.kinematics import Robot

__all__ = [
    "eaik",
    "eaik_solutions",
    "eaik_solver",
    "frankik",
    "frankik_solutions",
    "self_motion_charts",
    "ssik",
    "ssik_artifact",
]


def ssik_artifact(case: Case) -> ModuleType:
    """Build ssik's solver for the URDF and load it: its fastest form, the same that ssik ships for known arms."""
    from ssik.cli import main

    case.full_poses_only()
    path = case.urdf.with_name(f"{case.robot.name}_ik.py")
    if not path.exists():
        links = ["--base", case.robot.base_link, "--ee", case.robot.tip_link]
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = main(["build", str(case.urdf), *links, "--out", str(path), "--no-validate"])
        if code:
            raise Unsupported(f"cannot build: {said.getvalue().strip().splitlines()[-1]}")
    return loaded(importlib.util.spec_from_file_location(path.stem, path))


def ssik(case: Case, rng: np.random.Generator) -> Solver:
    """Return a solver for the first solution of ssik's closed form."""
    arm = ssik_artifact(case)

    def prepare(pose: np.ndarray) -> Callable[[], np.ndarray | None]:
        def attempt() -> np.ndarray | None:
            solutions = arm.solve(pose, max_solutions=1)
            return np.asarray(solutions[0].q) if solutions else None

        return attempt

    return prepare


def self_motion_charts(case: Case, n_samples: int) -> Callable[[np.ndarray], np.ndarray]:
    """Return a solver that samples all charts of ssik's self-motion manifold, about n_samples of each within limits.

    Unlike a `Solver`, it returns many solutions of a pose in one call.
    """
    from ssik import Manipulator

    case.full_poses_only()
    arm = Manipulator.from_urdf(case.urdf, base=case.robot.base_link, ee=case.robot.tip_link)

    def solve(pose: np.ndarray) -> np.ndarray:
        pieces = [qs for chart in arm.self_motion(pose).charts for _, qs in chart.sample(n_samples, limits=True)]
        return case.wrapped(np.concatenate(pieces)) if pieces else np.empty((0, case.robot.dof))

    return solve


def eaik_solver(robot: Robot) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]] | None:
    """Return EAIK's solver, or None if it knows no decomposition of the arm.

    The solver returns the solutions (n, 6) of a pose and whether each is marked as a least-squares solution.
    """
    from eaik.IK_HP import HPRobot

    home, origins = robot.fk(np.zeros(6)), robot.skeleton(np.zeros(6))[1:7]
    offsets = np.vstack([origins[0], np.diff(origins, axis=0), home[:3, 3] - origins[5]])
    arm = HPRobot(robot.jacobian(np.zeros(6))[3:].T.copy(), offsets)
    if not arm.hasKnownDecomposition():
        return None

    def solve(pose: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        wanted = pose.copy()
        wanted[:3, :3] = pose[:3, :3] @ home[:3, :3].T
        found = arm.IK(wanted)
        return np.reshape(found.Q, (-1, 6)), np.asarray(found.is_LS, dtype=bool)

    return solve


def eaik_solutions(case: Case) -> Callable[[np.ndarray], np.ndarray]:
    """Return a solver for EAIK's exact solutions of one call, shifted by full revolutions towards mid-range."""
    case.full_poses_only()
    if case.robot.dof != 6:
        raise Unsupported("six joints only, or one of seven held")
    solve = eaik_solver(case.robot)
    if solve is None:
        raise Unsupported("knows no decomposition of this arm")

    def solutions(pose: np.ndarray) -> np.ndarray:
        found, is_least_squares = solve(pose)
        return case.wrapped(found[~is_least_squares])

    return solutions


def eaik(case: Case, rng: np.random.Generator) -> Solver:
    """Return a solver for the first solution of EAIK's closed form."""
    solve = eaik_solutions(case)

    def prepare(pose: np.ndarray) -> Callable[[], np.ndarray | None]:
        def attempt() -> np.ndarray | None:
            solutions = solve(pose)
            return solutions[0] if len(solutions) else None

        return attempt

    return prepare


def frankik_pose(case: Case) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that converts a pose of the URDF's tip to a pose of the flange.

    frankik solves for the flange, but its `fk` returns the pose of the hand's tip.
    """
    case.full_poses_only()
    if case.robot.name != "panda":
        raise Unsupported("the Franka arms only")
    import frankik as package

    q = case.robot.random(1, np.random.default_rng(0))[0]
    half = np.sqrt(0.5)
    hand = np.array([[half, half, 0, 0], [-half, half, 0, 0], [0, 0, 1, 0.1034], [0, 0, 0, 1]])
    offset = np.linalg.inv(case.robot.fk(q)) @ package.fk(q) @ np.linalg.inv(hand)
    return lambda pose: pose @ offset


def frankik(case: Case, rng: np.random.Generator) -> Solver:
    """Return a solver for frankik's solution nearest to a random seed; frankik samples joint 7."""
    to_frame = frankik_pose(case)
    from frankik import FrankaKinematics, RobotType

    arm = FrankaKinematics(RobotType.PANDA)

    def prepare(pose: np.ndarray) -> Callable[[], np.ndarray | None]:
        wanted, seed = to_frame(pose), case.seed(rng)
        return lambda: arm.inverse(wanted, q0=seed)

    return prepare


def frankik_solutions(case: Case, n_values: int) -> Callable[[np.ndarray], np.ndarray]:
    """Return a solver for all solutions of frankik with joint 7 at each of `n_values` values within its limits."""
    to_frame = frankik_pose(case)
    from frankik import ik_full

    values = np.linspace(case.robot.lower[6], case.robot.upper[6], n_values)

    def solutions(pose: np.ndarray) -> np.ndarray:
        wanted = to_frame(pose)
        rows = np.concatenate([ik_full(wanted, q7=value) for value in values])
        return rows[np.isfinite(rows).all(axis=1)]

    return solutions
