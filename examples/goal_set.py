"""Find shorter paths with a goal set: RRT-Connect plans to 1, 10 and 50 configurations of the same pose.

A Panda moves its hand from the ready posture to a pose among random posts. The goal set contains the collision-free
configurations that the sampler finds for the pose. These are results of `goal_set.py --scenes 200` with OMPL 2.0.1,
seed 0, and a limit of 1 s to plan and simplify:

    goals   solved   median length in joint space (189 scenes that all three solved)
        1   96.0 %   3.98 rad
       10   95.0 %   3.36 rad
       50   96.5 %   3.31 rad

Measured on one core of an AMD EPYC. The planner stops by time, so figures differ by one or two percent between runs.
"""

import argparse
import time

import numpy as np
from ompl import base, geometric, util

from eim_ros import Box, Robot, Sampler
from eim_ros.kinematics import pose_from
from eim_ros.kinematics.collision import CollisionModel, CollisionScene

READY = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])  # [rad]
N_GOALS = (1, 10, 50)
N_POSTS = 20


def random_scene(rng: np.random.Generator, model: CollisionModel) -> tuple[CollisionScene, list[Box]]:
    """Return random posts around the robot that do not touch it in its start configuration."""
    while True:
        places = rng.uniform([-0.7, -0.7], [0.7, 0.7], (N_POSTS, 2))
        posts = [Box(pose_from([x, y, 0.5]), [0.08, 0.08, 1.0]) for x, y in places if np.hypot(x, y) > 0.25]
        scene = model.scene(True, posts, 0.0)
        if not scene.colliding(READY[None]).any():
            return scene, posts


def goals_of_a_scene(rng: np.random.Generator, sampler: Sampler, posts: list[Box]) -> np.ndarray:
    """Return collision-free configurations (n, 7) in random order for a reachable pose with the hand pointing down."""
    sampler = sampler.with_constraints(obstacles=posts, self_collision=True)
    for _ in range(100):
        pose = pose_from(rng.uniform([0.2, -0.6, 0.1], [0.7, 0.6, 0.6]), [1.0, 0.0, 0.0, 0.0])
        samples = sampler.sample(pose, 200, seed=int(rng.integers(2**31)))
        if samples:
            return rng.permutation(samples.q)
    raise RuntimeError("no pose of this scene can be reached")


def plan(robot: Robot, scene: CollisionScene, goals: np.ndarray, seconds: float) -> float:
    """Return the length of a path from the ready posture to a goal [rad], or NaN if time was short."""
    space = base.RealVectorStateSpace(robot.dof)
    bounds = base.RealVectorBounds(robot.dof)
    for joint, (lower, upper) in enumerate(zip(robot.lower.tolist(), robot.upper.tolist(), strict=True)):
        bounds.setLow(joint, lower)
        bounds.setHigh(joint, upper)
    space.setBounds(bounds)
    setup = geometric.SimpleSetup(space)
    information = setup.getSpaceInformation()
    setup.setStateValidityChecker(lambda q: not scene.colliding(np.array([[q[i] for i in range(robot.dof)]]))[0])

    def state(q: np.ndarray) -> base.State:
        made = space.allocState()
        for joint, value in enumerate(q.tolist()):
            made[joint] = value
        return made

    setup.setStartState(state(READY))
    goal_set = base.GoalStates(information)
    for q in goals:
        goal_set.addState(state(q))
    setup.setGoal(goal_set)
    setup.setPlanner(geometric.RRTConnect(information))
    ends = time.perf_counter() + seconds
    setup.solve(seconds)
    if not setup.haveExactSolutionPath():
        return np.nan
    setup.simplifySolution(max(ends - time.perf_counter(), 0.01))
    return float(setup.getSolutionPath().length())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=1.0, help="for planning and simplification [s]")
    arguments = parser.parse_args()
    util.noOutputHandler(), util.RNG.setSeed(1)
    rng, robot = np.random.default_rng(0), Robot("panda")
    sampler, model = Sampler(robot), CollisionModel(robot)
    lengths = np.empty((arguments.scenes, len(N_GOALS)))
    for row in lengths:
        scene, posts = random_scene(rng, model)
        goals = goals_of_a_scene(rng, sampler, posts)
        row[:] = [plan(robot, scene, goals[:n], arguments.seconds) for n in N_GOALS]
    in_all = ~np.isnan(lengths).any(axis=1)
    print(f"{arguments.scenes} scenes, {in_all.sum()} of them solved by all three, of which the median lengths are")
    for n, column in zip(N_GOALS, lengths.T, strict=True):
        solved = 100.0 * np.mean(~np.isnan(column))
        print(f"{n:3d} goals: {solved:5.1f} % solved, length {np.median(column[in_all]):.2f} rad")
