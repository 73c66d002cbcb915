"""Planning to a given goal, to the nearest solutions of its pose, and to 100 solutions, for MotionBenchMaker problems.

    python -m benchmarks.goal_sets --problems FOLDER [--robots panda ur5 fetch] [--per-scene 8 5 5] [--output FILE]

FOLDER is `resources` in a checkout of github.com/KavrakiLab/vamp (Apache 2.0, commit f6de6a7). It contains a folder for
each robot with its description, its meshes, and `problems.tar.bz2`: seven scenes with 100 problems each. A problem has
obstacles, a start, and one goal configuration. The first problems of each scene are used, except those whose start or
given goal collides.

The planner is OMPL's RRTConnect with its default settings (`pip install ompl`). Paths are simplified with default
settings, but without a change of the goal. With `--may-change-goal`, a simplified path may end at another goal of the
set, which `SimpleSetup` allows by default. Our collision check uses meshes, and convex hulls of meshes for the Fetch.
Motions are checked in steps of 0.02 rad or m. Afterwards, a judge checks the path in steps of 0.005 rad or m. A path
that collides in this check counts as not solved. Limits are CPU times of one thread.

Lengths are Euclidean in joint space [rad, m]. They are compared on the runs that all goal sets solved. Continuous
joints are planned on the real line. Their goal values are the 2π-equivalent values nearest to the start.
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import io
import platform
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks._machine import load_average, processor, versions
from eim_ros import Box, Cylinder, Robot, Sampler
from eim_ros.kinematics import CollisionOptions, pose_from
from eim_ros.kinematics.collision import CollisionScene, collision_model

FloatArray = np.ndarray[Any, np.dtype[np.float64]]
Obstacles = list[Box | Cylinder]

CHAINS = {
    "panda": ("panda_link0", "panda_hand"),
    "ur5": ("offset_link", "ee_link"),
    "fetch": ("base_link", "gripper_link"),
}
PER_SCENE = {"panda": 8, "ur5": 5, "fetch": 5}
MESHES = {"panda": "exact", "ur5": "exact", "fetch": "hulls"}  # hulls are faster
GOAL_SETS = ("given goal", "nearest", "ten nearest", "100 goals")
STEP, FINE_STEP = 0.02, 0.005  # steps of the planner and of the judge [rad, m]
COARSELY = 8  # every eighth configuration of a motion is checked first, because a collision ends the check
IK_TIMEOUT = 10.0  # [s]


@dataclass(frozen=True, eq=False)
class Query:
    """A start (dof,), a goal configuration (dof,), and obstacles."""

    scene: str
    start: FloatArray
    goal: FloatArray
    obstacles: Obstacles


@dataclass(frozen=True, eq=False)
class Run:
    """Result of one run of the planner.

    Attributes
    ----------
    n_goals : int
    seconds_of_goals, seconds : float
        CPU time to find the goals, and to plan without simplification [s].
    length : float
        Length of the simplified path [rad, m]; NaN without a path.
    is_rejected : bool
        Whether the judge found a collision on the path.
    """

    n_goals: int
    seconds_of_goals: float
    seconds: float
    length: float
    is_rejected: bool


def read_robot(folder: Path, name: str) -> Robot:
    """Return the robot of the problems, with its meshes and the pairs of links that its SRDF disables."""
    base, tip = CHAINS[name]
    srdf = (folder / name / f"{name}.srdf").read_text(encoding="utf-8")
    options = CollisionOptions(srdf=srdf, package_paths=[str(folder / name)], meshes=MESHES[name])
    return Robot(folder / name / f"{name}.urdf", tip, base=base, collision=options)


def read_queries(folder: Path, name: str, robot: Robot, per_scene: int) -> Iterator[Query]:
    """Yield the first problems of each scene. The scenes take turns."""
    texts: dict[str, bytes] = {}
    with tarfile.open(folder / name / "problems.tar.bz2") as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is not None:
                texts[member.name] = file.read()
    requests = sorted(path for path in texts if Path(path).name.startswith("request"))
    scenes = sorted({Path(path).parent for path in requests})
    for number in range(per_scene):
        for scene in scenes:
            path = [path for path in requests if Path(path).parent == scene][number]
            request, world = (_yaml(texts[each]) for each in (path, path.replace("request", "scene")))
            state = request["start_state"]["joint_state"]
            start = dict(zip(state["name"], state["position"], strict=True))
            goal = {c["joint_name"]: c["position"] for c in request["goal_constraints"][0]["joint_constraints"]}
            values = [np.array([float(of[joint]) for joint in robot.joint_names]) for of in (start, goal)]
            yield Query(scene.name.removesuffix(f"_{name}"), *values, _obstacles(world["world"]["collision_objects"]))


def _yaml(text: bytes) -> Any:
    return yaml.load(io.BytesIO(text), getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def _obstacles(objects: list[dict[str, Any]]) -> Obstacles:
    found: Obstacles = []
    for each in objects:
        outer = _pose(each["pose"]) if "pose" in each else np.eye(4)
        for solid, pose in zip(each["primitives"], each["primitive_poses"], strict=True):
            place, sizes = outer @ _pose(pose), [float(size) for size in solid["dimensions"]]
            if solid["type"] == "box":
                found.append(Box(place, sizes, name=each["id"]))
            else:
                length, radius = sizes
                found.append(Cylinder(place, radius, length, name=each["id"]))
    return found


def _pose(pose: dict[str, Any]) -> FloatArray:
    return np.asarray(pose_from([float(x) for x in pose["position"]], [float(x) for x in pose["orientation"]]))


def goal_set(kind: str, sampler: Sampler, query: Query, seed: int) -> FloatArray:
    """Return the goals (n, dof) of one kind."""
    if kind == "given goal":
        return query.goal[None]
    pose = sampler.robot.fk(query.goal)
    if kind == "nearest":
        return sampler.solve(pose, near=query.start, seed=seed, timeout=IK_TIMEOUT).q
    if kind == "ten nearest":
        return sampler.sample(pose, 10, near=query.start, seed=seed, timeout=IK_TIMEOUT).q
    return sampler.sample(pose, 100, seed=seed, timeout=IK_TIMEOUT).q


def is_free(scene: CollisionScene, a: FloatArray, b: FloatArray, step: float) -> bool:
    """Return whether the straight motion between two configurations (dof,) is free of collisions."""
    n = int(np.ceil(np.abs(b - a).max() / step)) + 1
    q = np.linspace(a, b, n + 1)[1:]
    coarse = np.zeros(n, dtype=bool)
    coarse[COARSELY - 1 :: COARSELY] = coarse[-1] = True
    return all(not scene.colliding(q[some]).any() for some in (coarse, ~coarse) if some.any())


def plan(
    robot: Robot, scene: CollisionScene, start: FloatArray, goals: FloatArray, limit: float, may_change_goal: bool
) -> tuple[float, Any]:
    """Plan and simplify a path from `start` (dof,) to any of the goals (n, dof).

    Returns
    -------
    float
        CPU time to plan [s].
    (n_states, dof) array, or None
        Configurations of the path.
    """
    from ompl import base, geometric

    dof = robot.dof
    space, bounds = base.RealVectorStateSpace(dof), base.RealVectorBounds(dof)
    lower = np.where(robot.continuous, start - np.pi, robot.lower)
    upper = np.where(robot.continuous, start + np.pi, robot.upper)
    ends = np.concatenate([start[None], goals])  # some problems exceed the limits by rounding
    lower, upper = np.minimum(lower, ends.min(axis=0)), np.maximum(upper, ends.max(axis=0))
    for joint in range(dof):
        bounds.setLow(joint, float(lower[joint]))
        bounds.setHigh(joint, float(upper[joint]))
    space.setBounds(bounds)
    setup = geometric.SimpleSetup(space)
    information = setup.getSpaceInformation()

    def values(state: Any) -> FloatArray:
        return np.array([state[i] for i in range(dof)])

    def state_of(q: FloatArray) -> Any:
        state = space.allocState()
        for i, value in enumerate(q.tolist()):
            state[i] = value
        return state

    class Motions(base.MotionValidator):  # type: ignore[misc]
        def checkMotion(self, first: Any, second: Any) -> bool:
            return is_free(scene, values(first), values(second), STEP)

    def within(seconds: float) -> Any:
        end = time.thread_time() + seconds
        return base.PlannerTerminationCondition(lambda: time.thread_time() > end)

    setup.setStateValidityChecker(lambda state: not scene.colliding(values(state)[None])[0])
    information.setMotionValidator(motions := Motions(information))
    setup.setStartState(state_of(start))
    states = base.GoalStates(information)
    for q in goals:
        states.addState(state_of(q))
    setup.setGoal(states)
    setup.setPlanner(geometric.RRTConnect(information))
    began = time.thread_time()
    setup.solve(within(limit))
    seconds = time.thread_time() - began
    if not setup.haveExactSolutionPath():
        return seconds, None
    path = setup.getSolutionPath()
    simplifier = geometric.PathSimplifier(information, states) if may_change_goal else None
    simplifier = simplifier or geometric.PathSimplifier(information)
    simplifier.simplify(path, within(limit), True)
    rows = np.array([values(state) for state in path.getStates()])
    del motions
    return seconds, rows


def run(
    sampler: Sampler, scene: CollisionScene, query: Query, kind: str, seed: int, limit: float, may_change_goal: bool
) -> Run:
    """Find the goals of one kind, plan a path to any of them, and judge the path."""
    robot = sampler.robot
    began = time.thread_time()
    goals = goal_set(kind, sampler, query, seed)
    seconds_of_goals = time.thread_time() - began
    turns = np.round((goals - query.start) / (2.0 * np.pi))
    goals = goals - np.where(robot.continuous, 2.0 * np.pi * turns, 0.0)
    if not len(goals):
        return Run(0, seconds_of_goals, np.nan, np.nan, False)
    seconds, path = plan(robot, scene, query.start, goals, limit, may_change_goal)
    if path is None:
        return Run(len(goals), seconds_of_goals, seconds, np.nan, False)
    if not all(is_free(scene, a, b, FINE_STEP) for a, b in zip(path[:-1], path[1:], strict=True)):
        return Run(len(goals), seconds_of_goals, seconds, np.nan, True)
    length = float(np.linalg.norm(np.diff(path, axis=0), axis=1).sum())
    return Run(len(goals), seconds_of_goals, seconds, length, False)


def table(name: str, runs: dict[str, list[Run]]) -> list[str]:
    """Return one row for each kind of goal set."""
    lengths = np.array([[each.length for each in runs[kind]] for kind in GOAL_SETS])
    in_all = ~np.isnan(lengths).any(axis=0)
    given, lines = lengths[0, in_all], []
    for kind, row in zip(GOAL_SETS, lengths, strict=True):
        solved = row[in_all]
        saved = 100.0 * (1.0 - solved / given)
        error = np.sqrt(max(len(solved), 1))
        lines.append(
            f"{name:6s}  {kind:12s} {np.mean([each.n_goals for each in runs[kind]]):6.1f}"
            f"{np.sum(~np.isnan(row)):6d} of {len(row):3d}"
            f"{1e3 * np.median([each.seconds_of_goals for each in runs[kind]]):9.1f}"
            f"{1e3 * np.nanmedian([each.seconds for each in runs[kind]]):9.0f}"
            f"{solved.mean():9.2f} +- {solved.std() / error:4.2f}{saved.mean():8.1f} +- {saved.std() / error:3.1f}"
            f"{len(solved):8d}{sum(each.is_rejected for each in runs[kind]):8d}"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=Path, help="folder `resources` of a checkout of KavrakiLab/vamp")
    parser.add_argument("--robots", nargs="+", default=list(CHAINS), choices=list(CHAINS))
    parser.add_argument("--per-scene", type=int, nargs="+", help="number of problems of each scene, for each robot")
    parser.add_argument("--repeats", type=int, default=1, help="number of runs of each problem")
    parser.add_argument(
        "--limit", type=float, default=1.0, help="limit of CPU time for planning, and for simplifying [s]"
    )
    parser.add_argument(
        "--may-change-goal",
        action="store_true",
        help="let simplification change the goal within the set, as SimpleSetup does",
    )
    parser.add_argument(
        "--minutes", type=float, default=np.inf, help="do not start another problem of a robot after this time"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    if arguments.problems is None:
        print("skipped, because there are no problems; give their folder as --problems FOLDER")
        return
    from ompl import util

    util.noOutputHandler()
    util.RNG.setSeed(arguments.seed)
    numbers = arguments.per_scene or [PER_SCENE[name] for name in arguments.robots]
    lines = [
        f"goal sets on problems of MotionBenchMaker, RRTConnect, limit {arguments.limit:g} s, seed {arguments.seed}, "
        f"{arguments.repeats} run(s) of each problem",
        f"simplification {'may change' if arguments.may_change_goal else 'keeps'} the goal",
        f"{processor()}, one thread, load {load_average()}",
        f"Python {platform.python_version()}; {versions(('eim_ros', 'ompl', 'numpy', 'pin'))}",
        "",
    ]
    notes, rows = list[str](), list[str]()
    for name, per_scene in zip(arguments.robots, numbers, strict=True):
        robot = read_robot(arguments.problems, name)
        model, plain = collision_model(robot), Sampler(robot)
        runs: dict[str, list[Run]] = {kind: [] for kind in GOAL_SETS}
        n_queries, n_used, end = 0, 0, time.monotonic() + 60.0 * arguments.minutes
        for query in read_queries(arguments.problems, name, robot, per_scene):
            if time.monotonic() > end:
                break
            n_queries += 1
            scene = model.scene(True, query.obstacles)
            if scene.colliding(np.stack([query.start, query.goal])).any():
                continue
            n_used += 1
            sampler = plain.with_constraints(obstacles=query.obstacles, self_collision=True)
            sampler.prepare()
            for repeat in range(arguments.repeats):
                for kind in GOAL_SETS:
                    seed = arguments.seed + repeat
                    limits = arguments.limit, arguments.may_change_goal
                    runs[kind].append(run(sampler, scene, query, kind, seed, *limits))
        notes.append(f"{name}: {n_queries} problems, {n_queries / 7:.1f} of each scene; start or goal of ")
        notes[-1] += f"{n_queries - n_used} collides"
        rows += [*table(name, runs), ""]
        print("\n".join(rows[-len(GOAL_SETS) - 1 :]), flush=True)
    head = "robot   goal set      goals      solved  IK ms  plan ms   length [rad]   saved [%]  compared  rejected"
    text = "\n".join([*lines, head, *rows, *notes]) + "\n"
    print(text)
    if arguments.output:
        arguments.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
