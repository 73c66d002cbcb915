"""Peers that iterate from a seed, and our algorithm in Python with pinocchio, see `_peers.py`."""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import re
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pinocchio as pin

from benchmarks._peers_case import Case, Solver, loaded
from eim_ros.kinematics import Robot, quaternion_from_matrix

__all__ = ["kdl", "mink", "optik", "pinocchio_loop", "roboplan", "roboticstoolbox", "trac_ik"]

TIMEOUT = 0.1  # limit on wall time [s]: optik's default, which is also long enough on a busy machine
MOST_RESTARTS = 100  # maximum number of restarts for solvers that do not restart themselves
DEBIAN_PACKAGES = "/usr/lib/python3/dist-packages"  # contains python3-pykdl, which is not published as a wheel


def roboticstoolbox(case: Case, rng: np.random.Generator) -> Solver:
    """Return the compiled Levenberg-Marquardt solver with Chan's damping; residual = |error|^2 / 2."""
    from roboticstoolbox import ET, ETS

    transforms, robot = [ET.SE3(transform) for transform in _transforms(case.robot)], case.robot
    chain = ETS(transforms[:1])
    for i in range(robot.dof):
        chain = chain * ET.Rz(jindex=i, qlim=[robot.lower[i], robot.upper[i]]) * transforms[i + 1]
    options: dict[str, Any] = {"tol": 0.5 * min(case.tolerances) ** 2, "joint_limits": True, "method": "chan", "k": 1.0}

    def prepare(pose: np.ndarray) -> Callable[[], np.ndarray | None]:
        seed = case.seed(rng)

        def attempt() -> np.ndarray | None:
            solution = chain.ik_LM(pose, q0=seed, **options)
            return solution.q if solution.success else None

        return attempt

    return prepare


def optik(case: Case, rng: np.random.Generator) -> Solver:
    """Return optik's solver on one thread with its default limit of 0.1 s; objective = |error|^2 / 2."""
    import optik as package

    robot = package.Robot.from_urdf_file(str(case.urdf), case.robot.base_link, case.robot.tip_link)
    robot.set_parallelism(1)
    config = package.SolverConfig(tol_f=0.5 * min(case.tolerances) ** 2)

    def prepare(pose: np.ndarray) -> Callable[[], np.ndarray | None]:
        seed = case.seed(rng)

        def attempt() -> np.ndarray | None:
            solution = robot.ik(config, pose, seed)
            return None if solution is None else np.array(solution[0])

        return attempt

    return prepare


def roboplan(case: Case, rng: np.random.Generator) -> Solver:
    """Return RoboPlan's simple solver without collision checks, with as many restarts as the other solvers."""
    from roboplan import core, simple_ik

    robot = case.robot
    text = re.sub("<collision.*?</collision>", "", case.urdf.read_text(encoding="utf-8"), flags=re.DOTALL)
    scene = core.Scene(robot.name, core.loadUrdfSceneDescriptionFromXml(text))
    options = simple_ik.SimpleIkOptions(
        max_time=TIMEOUT, max_restarts=MOST_RESTARTS, check_collisions=False,
        max_linear_error_norm=case.tolerances[0], max_angular_error_norm=case.tolerances[1],
    )  # fmt: skip
    solver = simple_ik.SimpleIk(scene, options)
    solver.setRngSeed(0)
    names = scene.getJointNames()

    def prepare(pose: np.ndarray) -> Callable[[], np.ndarray | None]:
        goal = core.CartesianConfiguration(robot.base_link, robot.tip_link, np.asfortranarray(pose))
        seed, found = core.JointConfiguration(names, case.seed(rng)), core.JointConfiguration()
        return lambda: np.array(found.positions) if solver.solveIk(goal, seed, found) else None

    return prepare


def trac_ik(case: Case, rng: np.random.Generator) -> Solver:
    import pytracik

    # TRAC-IK bounds each component of the errors, while we bound their norms
    epsilon = min(case.tolerances) / np.sqrt(3)
    urdf, links = case.urdf.read_text(encoding="utf-8"), (case.robot.base_link, case.robot.tip_link)
    solver = pytracik.TRAC_IK(*links, urdf, TIMEOUT, epsilon, pytracik.SolveType.Speed)

    def prepare(pose: np.ndarray) -> Callable[[], np.ndarray | None]:
        seed, position, quaternion = case.seed(rng), pose[:3, 3], quaternion_from_matrix(pose)

        def attempt() -> np.ndarray | None:
            answer = pytracik.ik(solver, seed, *position, *quaternion)
            return np.asarray(answer[1:]) if answer[0] >= 0 else None

        return attempt

    return prepare


def kdl(case: Case, rng: np.random.Generator) -> Solver:
    """Return KDL's Levenberg-Marquardt solver with default settings, restarted until a solution meets the limits."""
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
        # keep a reference, because the solver does not own its chain
        start, found = (package.JntArray(chain.getNrOfJoints()) for _ in range(2))
        goal, seeds = frame(pose), robot.random(MOST_RESTARTS, rng)

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
    """Return our algorithm in Python with pinocchio, including damping, patience and restarts."""
    robot = case.robot
    model = pin.buildModelFromUrdf(str(case.urdf))
    data, frame = model.createData(), model.getFrameId(robot.tip_link)
    identity = np.eye(6)

    def descend(pose: np.ndarray, q: np.ndarray) -> np.ndarray | None:
        least = reference = np.inf
        for iteration in range(61):
            jacobian = pin.computeFrameJacobian(model, data, q, frame, pin.LOCAL_WORLD_ALIGNED)
            reached = pin.updateFramePlacement(model, data, frame)
            error = np.concatenate([pose[:3, 3] - reached.translation, pin.log3(pose[:3, :3] @ reached.rotation.T)])
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
    """Return a solver with mink's quadratic programs and limits. An attempt ends when its error stops falling."""
    import mink as package
    import mujoco

    text = case.urdf.read_text(encoding="utf-8")  # by default, MuJoCo merges a fixed tip into its parent
    options = 'fusestatic="false" discardvisual="true" boundmass="1" boundinertia="1"'  # accept URDFs without masses
    kept = f"<mujoco><compiler {options}/></mujoco></robot>"
    configuration = package.Configuration(mujoco.MjModel.from_xml_string(text.replace("</robot>", kept)))
    task = package.FrameTask(case.robot.tip_link, "body", position_cost=1.0, orientation_cost=1.0, lm_damping=0.1)
    limits = [package.ConfigurationLimit(configuration.model)]

    def descend(pose: np.ndarray, q: np.ndarray) -> np.ndarray | None:
        task.set_target(package.SE3.from_matrix(pose))
        configuration.update(q)
        reference = np.inf
        for iteration in range(200):
            error = task.compute_error(configuration)
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


def _restarted(
    case: Case, rng: np.random.Generator, descend: Callable[[np.ndarray, np.ndarray], np.ndarray | None]
) -> Solver:
    """Return a solver that restarts from random seeds until an attempt succeeds."""

    def prepare(pose: np.ndarray) -> Callable[[], np.ndarray | None]:
        seeds = case.robot.random(MOST_RESTARTS, rng)

        def attempt() -> np.ndarray | None:
            for seed in seeds:
                q = descend(pose, seed)
                if q is not None:
                    return q
            return None

        return attempt

    return prepare


def _transforms(robot: Robot) -> np.ndarray:
    """Return the constant transforms (dof + 1, 4, 4) between joints that turn about their z axes."""
    transforms = np.tile(np.eye(4), (len(robot.links), 1, 1))
    transforms[:, :3, :3], transforms[:, :3, 3] = robot.links[:, :9].reshape(-1, 3, 3), robot.links[:, 9:12]
    return transforms


def _debian_kdl() -> ModuleType:
    """Import PyKDL from this Python environment, or from Debian's packages if the Python version is the same."""
    with contextlib.suppress(ImportError):
        return importlib.import_module("PyKDL")
    spec = importlib.machinery.PathFinder.find_spec("PyKDL", [DEBIAN_PACKAGES])
    if spec is None:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise ImportError(f"PyKDL is missing for Python {version}; on Debian or Ubuntu, install python3-pykdl")
    return loaded(spec)
