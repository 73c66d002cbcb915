"""Solvers of inverse kinematics behind one interface: ours, and each peer called as its own documentation does.

A solver takes a pose and returns an attempt: a function without arguments that finds a configuration, or nothing. What
lies before it, such as turning the pose into the peer's own type or drawing a seed, is not timed.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pinocchio as pin

from eim_ros.ik import IKModel, Sampler
from eim_ros.kinematics import Robot, quaternion_from_matrix

__all__ = [
    "OURS", "PEERS", "Case", "Solver", "Unsupported", "eaik_solutions", "eaik_solver", "frankik_solutions",
    "pinocchio_loop", "roboticstoolbox", "self_motion_charts", "ssik_artifact", "trac_ik", "uniform_seeds",
]  # fmt: skip

OURS = "eim_ros"  # begins the names of our solvers
TRAC_IK_TIMEOUT = 0.1  # [s] of wall time, as optik has by default: a busy machine shall not decide
MOST_RESTARTS = 100  # of solvers that know no restarts of their own
DEBIAN_PACKAGES = "/usr/lib/python3/dist-packages"  # where python3-pykdl is, which no index of wheels has

Solver = Callable[[np.ndarray], Callable[[], "np.ndarray | None"]]


class Unsupported(Exception):
    """The peer cannot be asked this, and why."""


@dataclass(frozen=True)
class Case:
    """A robot, and what is asked of a solver: position or pose, and how close [m], [rad]."""

    robot: Robot
    urdf: Path
    position_only: bool
    tolerances: tuple[float, float]
    model: IKModel | None = None

    def seed(self, rng: np.random.Generator) -> np.ndarray:
        return self.robot.sample_configurations(1, rng)[0]

    def wrapped(self, q: np.ndarray) -> np.ndarray:
        """The same angles, by whole turns as near to the middle of their range as can be; no joint slides."""
        middle = 0.5 * (self.robot.lower + self.robot.upper)
        return q - 2.0 * np.pi * np.round((q - middle) / (2.0 * np.pi))

    def whole_poses_only(self) -> None:
        if self.position_only:
            raise Unsupported("takes whole poses only")


def default_call(case: Case, rng: np.random.Generator) -> Solver:
    """What a user types first: one configuration of the robot's sampler, without a model."""
    return _sampled(case, Sampler.of(case.robot), rng)


def learned_sampler(case: Case, rng: np.random.Generator) -> Solver:
    """The same call of a sampler with a model."""
    if case.model is None:
        raise Unsupported("no model of this robot")
    sampler = Sampler(case.model)
    sampler.prepare()
    return _sampled(case, sampler, rng)


def _sampled(case: Case, sampler: Sampler, rng: np.random.Generator) -> Solver:
    position, orientation = case.tolerances

    def prepare(pose: np.ndarray) -> Callable[[], np.ndarray | None]:
        seed = int(rng.integers(2**31))

        def attempt() -> np.ndarray | None:
            answer = sampler.sample(
                pose, 1, seed, position_only=case.position_only,
                position_tolerance=position, orientation_tolerance=orientation,
            )  # fmt: skip
            return answer.positions[0] if answer.valid[0] else None

        return attempt

    return prepare


def uniform_seeds(case: Case, rng: np.random.Generator) -> Solver:
    """Our refiner from uniform random seeds, `Robot.solve`."""
    position, orientation = case.tolerances

    def prepare(pose: np.ndarray) -> Callable[[], np.ndarray | None]:
        def attempt() -> np.ndarray | None:
            result = case.robot.solve(
                pose, rng, position_only=case.position_only,
                position_tolerance=position, orientation_tolerance=orientation,
            )  # fmt: skip
            return result.positions[0] if result.converged[0] else None

        return attempt

    return prepare


def ssik_artifact(case: Case) -> ModuleType:
    """What `ssik build` makes of the URDF: its fastest form, the same as that of the arms it ships."""
    from ssik.cli import main

    case.whole_poses_only()
    path = case.urdf.with_name(f"{case.robot.name}_ik.py")
    if not path.exists():
        links = ["--base", case.robot.base_link, "--ee", case.robot.tip_link]
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = main(["build", str(case.urdf), *links, "--out", str(path), "--no-validate"])
        if code:
            raise Unsupported(f"cannot build: {said.getvalue().strip().splitlines()[-1]}")
    return _loaded(importlib.util.spec_from_file_location(path.stem, path))


def ssik(case: Case, rng: np.random.Generator) -> Solver:
    """Closed form; the first of its solutions."""
    arm = ssik_artifact(case)

    def prepare(pose: np.ndarray) -> Callable[[], np.ndarray | None]:
        def attempt() -> np.ndarray | None:
            solutions = arm.solve(pose, max_solutions=1)
            return np.asarray(solutions[0].q) if solutions else None

        return attempt

    return prepare


def self_motion_charts(case: Case, n_samples: int) -> Callable[[np.ndarray], np.ndarray]:
    """All charts of ssik's self-motion manifold, about n_samples of each within limits; whole solver, no attempt."""
    from ssik import Manipulator

    case.whole_poses_only()
    arm = Manipulator.from_urdf(case.urdf, base=case.robot.base_link, ee=case.robot.tip_link)

    def solve(pose: np.ndarray) -> np.ndarray:
        pieces = [qs for chart in arm.self_motion(pose).charts for _, qs in chart.sample(n_samples, limits=True)]
        return case.wrapped(np.concatenate(pieces)) if pieces else np.empty((0, case.robot.dof))

    return solve


def eaik_solver(robot: Robot) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]] | None:
    """EAIK: solutions (n, 6) of a pose, and whether they are marked as least squares; None without a decomposition."""
    from eaik.IK_HP import HPRobot

    home, origins = robot.forward(np.zeros(6)), robot.skeleton(np.zeros(6))[1:7]
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
    """Those of one call that are exact and within limits, one winding of each."""
    case.whole_poses_only()
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
    """Closed form; the first of its solutions."""
    solve = eaik_solutions(case)

    def prepare(pose: np.ndarray) -> Callable[[], np.ndarray | None]:
        def attempt() -> np.ndarray | None:
            solutions = solve(pose)
            return solutions[0] if len(solutions) else None

        return attempt

    return prepare


def frankik_pose(case: Case) -> Callable[[np.ndarray], np.ndarray]:
    """From a pose of the URDF's tip to that of the flange, which frankik solves for; its `fk` is of the hand's tip."""
    case.whole_poses_only()
    if case.robot.name != "panda":
        raise Unsupported("the Franka arms only")
    import frankik as package

    q = case.robot.sample_configurations(1, np.random.default_rng(0))[0]
    half = np.sqrt(0.5)
    hand = np.array([[half, half, 0, 0], [-half, half, 0, 0], [0, 0, 1, 0.1034], [0, 0, 0, 1]])
    offset = np.linalg.inv(case.robot.forward(q)) @ package.fk(q) @ np.linalg.inv(hand)
    return lambda pose: pose @ offset


def frankik(case: Case, rng: np.random.Generator) -> Solver:
    """Closed form with joint 7 sampled; the nearest to a random seed."""
    to_frame = frankik_pose(case)
    from frankik import FrankaKinematics, RobotType

    arm = FrankaKinematics(RobotType.PANDA)

    def prepare(pose: np.ndarray) -> Callable[[], np.ndarray | None]:
        wanted, seed = to_frame(pose), case.seed(rng)
        return lambda: arm.inverse(wanted, q0=seed)

    return prepare


def frankik_solutions(case: Case, n_values: int) -> Callable[[np.ndarray], np.ndarray]:
    """All with joint 7 at so many values, which it solves for in closed form."""
    to_frame = frankik_pose(case)
    from frankik import ik_full

    values = np.linspace(case.robot.lower[6], case.robot.upper[6], n_values)

    def solutions(pose: np.ndarray) -> np.ndarray:
        wanted = to_frame(pose)
        rows = np.concatenate([ik_full(wanted, q7=value) for value in values])
        return rows[np.isfinite(rows).all(axis=1)]

    return solutions


def roboticstoolbox(case: Case, rng: np.random.Generator) -> Solver:
    """Its compiled Levenberg-Marquardt after Chan, on the same constants; residual = |error|^2 / 2."""
    from roboticstoolbox import ET, ETS

    transforms, robot = [ET.SE3(transform) for transform in _transforms(case.robot)], case.robot
    chain = ETS(transforms[:1])
    for i in range(robot.dof):
        chain = chain * ET.Rz(jindex=i, qlim=[robot.lower[i], robot.upper[i]]) * transforms[i + 1]
    options: dict[str, Any] = {"tol": 0.5 * min(case.tolerances) ** 2, "joint_limits": True, "method": "chan", "k": 1.0}
    if case.position_only:
        options["mask"] = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])

    def prepare(pose: np.ndarray) -> Callable[[], np.ndarray | None]:
        seed = case.seed(rng)

        def attempt() -> np.ndarray | None:
            solution = chain.ik_LM(pose, q0=seed, **options)
            return solution.q if solution.success else None

        return attempt

    return prepare


def optik(case: Case, rng: np.random.Generator) -> Solver:
    """One thread, 0.1 s at most as by default; objective = |error|^2 / 2."""
    import optik as package

    robot = package.Robot.from_urdf_file(str(case.urdf), case.robot.base_link, case.robot.tip_link)
    robot.set_parallelism(1)
    free = {"angular_weight": [0.0, 0.0, 0.0]} if case.position_only else {}
    config = package.SolverConfig(tol_f=0.5 * min(case.tolerances) ** 2, **free)

    def prepare(pose: np.ndarray) -> Callable[[], np.ndarray | None]:
        seed = case.seed(rng)

        def attempt() -> np.ndarray | None:
            solution = robot.ik(config, pose, seed)
            return None if solution is None else np.array(solution[0])

        return attempt

    return prepare


def trac_ik(case: Case, rng: np.random.Generator) -> Solver:
    import pytracik

    case.whole_poses_only()
    epsilon = min(case.tolerances) / np.sqrt(3)  # it bounds each component, we the lengths
    urdf, links = case.urdf.read_text(encoding="utf-8"), (case.robot.base_link, case.robot.tip_link)
    solver = pytracik.TRAC_IK(*links, urdf, TRAC_IK_TIMEOUT, epsilon, pytracik.SolveType.Speed)

    def prepare(pose: np.ndarray) -> Callable[[], np.ndarray | None]:
        seed, position, quaternion = case.seed(rng), pose[:3, 3], quaternion_from_matrix(pose)

        def attempt() -> np.ndarray | None:
            answer = pytracik.ik(solver, seed, *position, *quaternion)
            return np.asarray(answer[1:]) if answer[0] >= 0 else None

        return attempt

    return prepare


def kdl(case: Case, rng: np.random.Generator) -> Solver:
    """Its Levenberg-Marquardt with its own settings; it knows no limits, so restarts until they hold."""
    if case.position_only:
        raise Unsupported("its weights, which free the orientation, crash with NumPy 2")
    package, robot = _debian_kdl(), case.robot

    def frame(transform: np.ndarray) -> Any:
        return package.Frame(package.Rotation(*transform[:3, :3].ravel()), package.Vector(*transform[:3, 3]))

    first, *rest = _transforms(robot)
    chain = package.Chain()
    chain.addSegment(package.Segment(package.Joint(package.Joint.Fixed), frame(first)))
    for transform in rest:
        chain.addSegment(package.Segment(package.Joint(package.Joint.RotZ), frame(transform)))
    solver = package.ChainIkSolverPos_LMA(chain)

    def prepare(pose: np.ndarray) -> Callable[[], np.ndarray | None]:
        start, found = (package.JntArray(chain.getNrOfJoints()) for _ in range(2))  # the solver does not keep its chain
        goal, seeds = frame(pose), robot.sample_configurations(MOST_RESTARTS, rng)

        def attempt() -> np.ndarray | None:
            for seed in seeds:
                for i, value in enumerate(seed):
                    start[i] = value
                if solver.CartToJnt(start, goal, found) >= 0:
                    q = case.wrapped(np.array([found[i] for i in range(robot.dof)]))
                    if np.all((q >= robot.lower) & (q <= robot.upper)):
                        return q
            return None

        return attempt

    return prepare


def pinocchio_loop(case: Case, rng: np.random.Generator) -> Solver:
    """The same algorithm as ours, damping, patience and restarts included, in Python around pinocchio."""
    robot = case.robot
    model = pin.buildModelFromUrdf(str(case.urdf))
    data, frame = model.createData(), model.getFrameId(robot.tip_link)
    rows = slice(0, 3) if case.position_only else slice(0, 6)
    identity = np.eye(6)[rows, rows]

    def descend(pose: np.ndarray, q: np.ndarray) -> np.ndarray | None:
        least = reference = np.inf
        for iteration in range(61):
            jacobian = pin.computeFrameJacobian(model, data, q, frame, pin.LOCAL_WORLD_ALIGNED)[rows]
            reached = pin.updateFramePlacement(model, data, frame)
            error = np.concatenate([pose[:3, 3] - reached.translation, pin.log3(pose[:3, :3] @ reached.rotation.T)])
            error = error[rows]
            if np.linalg.norm(error[:3]) <= case.tolerances[0] and np.linalg.norm(error[3:]) <= case.tolerances[1]:
                return q
            square = error @ error
            least = min(least, square)
            if iteration % 3 == 0:
                if not least < 0.5 * reference:
                    return None
                reference = least
            push = jacobian.T @ error
            jacobian[:, ((q <= robot.lower) & (push < 0)) | ((q >= robot.upper) & (push > 0))] = 0.0
            damping = (3e-2 * square + 1e-10) * identity
            q = q + jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + damping, error)
            q = np.minimum(np.maximum(q, robot.lower), robot.upper)
        return None

    return _restarted(case, rng, descend)


def mink(case: Case, rng: np.random.Generator) -> Solver:
    """Its quadratic programs, limits included; an attempt ends when its error does not fall any more."""
    import mink as package
    import mujoco

    text = case.urdf.read_text(encoding="utf-8")  # MuJoCo would merge a tip that is welded on into its parent
    kept = '<mujoco><compiler fusestatic="false" discardvisual="true"/></mujoco></robot>'
    configuration = package.Configuration(mujoco.MjModel.from_xml_string(text.replace("</robot>", kept)))
    orientation_cost = 0.0 if case.position_only else 1.0
    task = package.FrameTask(
        case.robot.tip_link, "body", position_cost=1.0, orientation_cost=orientation_cost, lm_damping=0.1
    )
    limits = [package.ConfigurationLimit(configuration.model)]
    rows = slice(0, 3) if case.position_only else slice(0, 6)

    def descend(pose: np.ndarray, q: np.ndarray) -> np.ndarray | None:
        task.set_target(package.SE3.from_matrix(pose))
        configuration.update(q)
        reference = np.inf
        for iteration in range(200):
            error = task.compute_error(configuration)[rows]
            if np.linalg.norm(error[:3]) <= case.tolerances[0] and np.linalg.norm(error[3:]) <= case.tolerances[1]:
                return np.array(configuration.q)
            if iteration % 10 == 9:
                if not np.linalg.norm(error) < 0.7 * reference:
                    return None
                reference = np.linalg.norm(error)
            try:
                velocity = package.solve_ik(configuration, [task], 1.0, "daqp", damping=1e-6, limits=limits)
            except package.NoSolutionFound:
                return None
            configuration.integrate_inplace(velocity, 1.0)
        return None

    return _restarted(case, rng, descend)


PEERS: dict[str, Callable[[Case, np.random.Generator], Solver]] = {
    f"{OURS}, default call": default_call,
    f"{OURS}, with a model": learned_sampler,
    f"{OURS}, Robot.solve": uniform_seeds,
    "ssik": ssik,
    "EAIK": eaik,
    "frankik": frankik,
    "roboticstoolbox, C++ LM (chan)": roboticstoolbox,
    "optik": optik,
    "TRAC-IK (pytracik, 100 ms)": trac_ik,
    "KDL LMA (PyKDL)": kdl,
    "pinocchio, Python loop": pinocchio_loop,
    "mink": mink,
}


def _restarted(
    case: Case, rng: np.random.Generator, descend: Callable[[np.ndarray, np.ndarray], np.ndarray | None]
) -> Solver:
    """A solver that descends from one random seed after the other."""

    def prepare(pose: np.ndarray) -> Callable[[], np.ndarray | None]:
        seeds = case.robot.sample_configurations(MOST_RESTARTS, rng)

        def attempt() -> np.ndarray | None:
            for seed in seeds:
                q = descend(pose, seed)
                if q is not None:
                    return q
            return None

        return attempt

    return prepare


def _transforms(robot: Robot) -> np.ndarray:
    """Constant transforms (dof + 1, 4, 4) between the joints, each of which turns about its z axis."""
    transforms = np.tile(np.eye(4), (len(robot.links), 1, 1))
    transforms[:, :3, :3], transforms[:, :3, 3] = robot.links[:, :9].reshape(-1, 3, 3), robot.links[:, 9:12]
    return transforms


def _debian_kdl() -> ModuleType:
    """PyKDL of this Python, or that of Debian where it has the same version."""
    with contextlib.suppress(ImportError):
        return importlib.import_module("PyKDL")
    spec = importlib.machinery.PathFinder.find_spec("PyKDL", [DEBIAN_PACKAGES])
    if spec is None:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise ImportError(f"no PyKDL for Python {version} (Debian, Ubuntu: apt install python3-pykdl)")
    return _loaded(spec)


def _loaded(spec: importlib.machinery.ModuleSpec | None) -> ModuleType:
    if spec is None or spec.loader is None:
        raise ImportError("no such module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
