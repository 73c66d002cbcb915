"""Peers of inverse kinematics that solve in closed form; see `_peers.py`."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pinocchio as pin

from benchmarks._peers_case import Case, Solver, Unsupported, loaded
from eim_ros.kinematics import Robot

__all__ = [
    "eaik",
    "eaik_solutions",
    "eaik_solver",
    "frankik",
    "frankik_solutions",
    "opw",
    "opw_solutions",
    "self_motion_charts",
    "ssik",
    "ssik_arms",
    "ssik_artifact",
]

SHIPPED_BY_SSIK = {"jaco2": "ssik.prebuilt.kinova.jaco2_ik"}
BUILD_LIMIT = 300  # limit of CPU time for a build [s]


def ssik_arms(solver: str, has_limits: bool = True) -> dict[str, tuple[str, ModuleType]]:
    """Return the URDF and the solver of each arm that ssik ships with this kind of solver, by the name of the arm.

    Joints without limits turn by at most half a revolution each way. If `has_limits` is false, this applies to all
    joints.
    """
    from ssik import Manipulator, list_arms

    found = {}
    for arm in list_arms():
        module = importlib.import_module(arm.import_path)
        if solver == module.SOLVER_NAME:
            joints = Manipulator.from_prebuilt(arm.name).kinbody.joints
            found[arm.display_name] = (_urdf_of_joints(joints, has_limits), module)
    return found


def _urdf_of_joints(joints: Sequence[Any], has_limits: bool) -> str:
    """Return a URDF with the joints of ssik. An offset after a joint becomes the origin of the next joint."""
    lines, before = ['<robot name="arm"><link name="link0"/>'], np.eye(4)
    for i, joint in enumerate(joints):
        axis = " ".join(repr(float(value)) for value in joint.axis)
        lower, upper = joint.limits if has_limits and joint.limits else (-np.pi, np.pi)
        lines.append(
            f'<joint name="joint{i + 1}" type="revolute"><parent link="link{i}"/><child link="link{i + 1}"/>'
            f'{_origin(before @ joint.T_left)}<axis xyz="{axis}"/>'
            f'<limit lower="{lower!r}" upper="{upper!r}" effort="1" velocity="1"/></joint><link name="link{i + 1}"/>'
        )
        before = joint.T_right
    lines.append(
        f'<joint name="flange" type="fixed"><parent link="link{len(joints)}"/><child link="tool"/>{_origin(before)}'
        '</joint><link name="tool"/></robot>'
    )
    return "\n".join(lines)


def _origin(transform: np.ndarray) -> str:
    roll, pitch, yaw = (float(value) for value in pin.rpy.matrixToRpy(transform[:3, :3]))
    x, y, z = (float(value) for value in transform[:3, 3])
    return f'<origin xyz="{x!r} {y!r} {z!r}" rpy="{roll!r} {pitch!r} {yaw!r}"/>'


def ssik_artifact(case: Case) -> ModuleType:
    """Return the solver that ssik ships for the arm, or build one for the URDF. Both have the same form.

    ssik stores derived equations in a cache on disk, so that a second build takes less time.
    """
    if case.urdf.stem in SHIPPED_BY_SSIK:
        return importlib.import_module(SHIPPED_BY_SSIK[case.urdf.stem])
    importlib.import_module("ssik")
    path = case.urdf.with_name(f"{case.urdf.stem}_ik.py")
    reason = _built(case.urdf, path, case.robot.base_link, case.robot.tip_link)
    if reason:
        raise Unsupported(reason)
    return loaded(importlib.util.spec_from_file_location(path.stem, path))


@functools.cache
def _built(urdf: Path, path: Path, base: str, tip: str) -> str:
    """Build a solver of ssik at `path`. Return an empty text, or the reason why ssik failed."""
    command = [sys.executable, "-c", "from ssik.cli import main; raise SystemExit(main())", "build", str(urdf)]
    done = subprocess.run(
        [*command, "--base", base, "--ee", tip, "--out", str(path), "--no-validate"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (BUILD_LIMIT, BUILD_LIMIT)),
        capture_output=True,
        text=True,
    )
    if done.returncode < 0:
        return f"is not built after {BUILD_LIMIT // 60} minutes of CPU time"
    return f"cannot build: {(done.stdout + done.stderr).strip().splitlines()[-1]}" if done.returncode else ""


def _first(prepare: Callable[[np.ndarray], Callable[[], np.ndarray]]) -> Solver:
    """Return a solver for the first of all solutions, whose computation is prepared for a pose."""

    def prepare_first(pose: np.ndarray) -> Callable[[], np.ndarray | None]:
        solve = prepare(pose)

        def attempt() -> np.ndarray | None:
            solutions = solve()
            return solutions[0] if len(solutions) else None

        return attempt

    return prepare_first


def ssik(case: Case, rng: np.random.Generator) -> Solver:
    """Return a solver for the first solution of ssik's closed form."""
    arm = ssik_artifact(case)

    def prepare(pose: np.ndarray) -> Callable[[], np.ndarray | None]:
        def attempt() -> np.ndarray | None:
            solutions = arm.solve(pose, max_solutions=1)
            return case.wrapped(solutions[0].q) if solutions else None

        return attempt

    return prepare


def self_motion_charts(case: Case, n_samples: int) -> Callable[[np.ndarray], np.ndarray]:
    """Return a solver that samples all charts of ssik's self-motion manifold, with about n_samples within limits each.

    Unlike a `Solver`, this solver returns many solutions of a pose in one call.
    """
    from ssik import Manipulator

    arm = Manipulator.from_urdf(case.urdf, base=case.robot.base_link, ee=case.robot.tip_link)

    def solve(pose: np.ndarray) -> np.ndarray:
        try:
            charts = arm.self_motion(pose).charts
        except NotImplementedError as error:
            raise Unsupported("has no charts for this kind of arm") from error
        pieces = [qs for chart in charts for _, qs in chart.sample(n_samples, limits=True)]
        return case.wrapped(np.concatenate(pieces)) if pieces else np.empty((0, case.robot.dof))

    return solve


def eaik_solver(robot: Robot) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]] | None:
    """Return EAIK's solver, or None if EAIK has no decomposition for the arm.

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
    """Return a solver for EAIK's exact solutions, shifted by revolutions towards the middle of the range."""
    if case.robot.dof != 6:
        raise Unsupported("solves only six joints, or seven with one fixed")
    solve = eaik_solver(case.robot)
    if solve is None:
        raise Unsupported("has no decomposition for this arm")

    def solutions(pose: np.ndarray) -> np.ndarray:
        found, is_least_squares = solve(pose)
        return case.wrapped(found[~is_least_squares])

    return solutions


def eaik(case: Case, rng: np.random.Generator) -> Solver:
    """Return a solver for the first solution of EAIK's closed form."""
    solve = eaik_solutions(case)
    return _first(lambda pose: lambda: solve(pose))


def frankik_pose(case: Case) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that converts a pose of the URDF's tip to a pose of the flange.

    frankik solves for poses of the flange, but its `fk` returns the pose of the tip of the hand.
    """
    if case.robot.name != "panda":
        raise Unsupported("solves only Franka arms")
    import frankik as package

    q = case.robot.random(1, np.random.default_rng(0))[0]
    half = np.sqrt(0.5)
    hand = np.array([[half, half, 0, 0], [-half, half, 0, 0], [0, 0, 1, 0.1034], [0, 0, 0, 1]])
    offset = np.linalg.inv(case.robot.fk(q)) @ package.fk(q) @ np.linalg.inv(hand)
    return lambda pose: pose @ offset


def frankik(case: Case, rng: np.random.Generator) -> Solver:
    """Return a solver for frankik's solution nearest to a random seed. frankik samples joint 7."""
    to_frame = frankik_pose(case)
    from frankik import FrankaKinematics, RobotType

    arm = FrankaKinematics(RobotType.PANDA)

    def prepare(pose: np.ndarray) -> Callable[[], np.ndarray | None]:
        wanted, seed = to_frame(pose), case.seed(rng)
        return lambda: arm.inverse(wanted, q0=seed)

    return prepare


def frankik_solutions(case: Case, n_values: int) -> Callable[[np.ndarray], np.ndarray]:
    """Return a solver for all solutions of frankik, where joint 7 has each of `n_values` values within its limits."""
    to_frame = frankik_pose(case)
    from frankik import ik_full

    values = np.linspace(case.robot.lower[6], case.robot.upper[6], n_values)

    def solutions(pose: np.ndarray) -> np.ndarray:
        wanted = to_frame(pose)
        rows = np.concatenate([ik_full(wanted, q7=value) for value in values])
        return rows[np.isfinite(rows).all(axis=1)]

    return solutions


class OpwArm(NamedTuple):
    """Parameters of an arm with a spherical wrist, in the convention of OPW (Brandstötter, Angerer, Hofbaur 2014).

    `lengths` [m] are the parameters of OPW. Its angles θ give the joint angles q = zeros + signs θ [rad]. The frame of
    OPW in the base frame is `base` (4, 4), and the tip in OPW's last frame is `flange` (4, 4).
    """

    lengths: dict[str, float]
    zeros: np.ndarray
    signs: np.ndarray
    base: np.ndarray
    flange: np.ndarray


def opw_arm(robot: Robot) -> OpwArm:
    """Return the parameters of an arm, or raise `Unsupported`.

    Axes 1 to 6 of OPW at zero have the directions z, y, y, z, y, z. All links are upright.
    """
    zeros = np.zeros(6)

    def axes() -> tuple[np.ndarray, np.ndarray]:
        return robot.jacobian(zeros)[3:].T, robot.skeleton(zeros)[1:7]

    def turned_until(joint: int, now: np.ndarray, wanted: np.ndarray) -> None:
        axis = axes()[0][joint]
        zeros[joint] += np.arctan2(axis @ np.cross(now, wanted), now @ wanted)

    z, y = (axes()[0][i] for i in (0, 1))
    x = np.cross(y, z)
    directions, points = axes()
    upper = points[2] - points[1]
    turned_until(1, upper - y * (y @ upper), z)
    turned_until(2, axes()[0][3], z)
    turned_until(3, axes()[0][4], y)
    turned_until(4, axes()[0][5], z)
    directions, points = axes()
    wanted = np.array([z, y, y, z, y, z])
    signs = np.sign(np.sum(directions * wanted, axis=1))
    fourth, last = (points[i] + directions[i] * (directions[i] @ (points[4] - points[i])) for i in (3, 5))
    wrist = fourth + directions[4] * (directions[4] @ (last - fourth))
    gaps = [np.cross(wrist - points[i], directions[i]) for i in (3, 4, 5)]
    misfits = (directions * signs[:, None] - wanted, gaps, y @ z)
    if not all(np.allclose(misfit, 0.0, atol=1e-9) for misfit in misfits):
        raise Unsupported("needs a spherical wrist, and axes 2 and 3 that are parallel and perpendicular to axis 1")
    origin = points[0] + z * (z @ (points[1] - points[0]))  # height of axis 2
    at = np.array([x, y, z]) @ np.array([points[1] - origin, points[2] - origin, wrist - origin]).T
    lengths = {"a1": at[0, 0], "a2": at[0, 2] - at[0, 1], "b": at[1, 2], "c2": at[2, 1], "c3": at[2, 2] - at[2, 1]}
    base, end = np.eye(4), np.eye(4)
    base[:3, :3] = end[:3, :3] = np.array([x, y, z]).T
    base[:3, 3], end[:3, 3] = origin, wrist
    return OpwArm(lengths, zeros, signs, base, np.linalg.inv(end) @ robot.fk(zeros))


def opw_solutions(case: Case) -> Callable[[np.ndarray], Callable[[], np.ndarray]]:
    """Return a solver for all solutions of rs-opw-kinematics. The pose is converted beforehand to the type of SciPy."""
    from py_opw_kinematics import KinematicModel
    from py_opw_kinematics import Robot as Opw
    from scipy.spatial.transform import RigidTransform

    if case.robot.dof != 6:
        raise Unsupported("solves only six joints")
    arm = opw_arm(case.robot)
    solver = Opw(KinematicModel(**arm.lengths), degrees=False)
    from_base, to_flange = np.linalg.inv(arm.base), np.linalg.inv(arm.flange)

    def prepare(pose: np.ndarray) -> Callable[[], np.ndarray]:
        wanted = RigidTransform.from_matrix(from_base @ pose @ to_flange)
        return lambda: case.wrapped(arm.zeros + arm.signs * np.reshape(solver.inverse(wanted), (-1, 6)))

    return prepare


def opw(case: Case, rng: np.random.Generator) -> Solver:
    """Return a solver for the first solution of rs-opw-kinematics."""
    return _first(opw_solutions(case))
