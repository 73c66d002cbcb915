"""Give a planner the goals nearest to the start: OMPL's RRTConnect plans to solutions of one pose among posts.

A pose has many solutions, and most of them are far from the start. The script compares a randomly chosen solution, the
nearest solution, and the ten nearest solutions as goals. The results of a benchmark are in examples/README.md.
"""

import argparse

import numpy as np
from ompl import base, geometric, util

from eim_ros import Box, Robot, Sampler
from eim_ros.kinematics.collision import CollisionModel, CollisionScene

READY = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])  # [rad]


def plan(robot: Robot, scene: CollisionScene, goals: np.ndarray, seconds: float) -> float:
    """Return the length of a path from the ready posture to a goal [rad], or NaN if none was found in time."""
    space, bounds = base.RealVectorStateSpace(robot.dof), base.RealVectorBounds(robot.dof)
    for joint in range(robot.dof):
        bounds.setLow(joint, float(robot.lower[joint]))
        bounds.setHigh(joint, float(robot.upper[joint]))
    space.setBounds(bounds)
    setup = geometric.SimpleSetup(space)
    setup.setStateValidityChecker(lambda q: not scene.colliding(np.array([[q[i] for i in range(robot.dof)]]))[0])
    states = [space.allocState() for _ in range(1 + len(goals))]
    for row, joint in np.ndindex(1 + len(goals), robot.dof):
        states[row][joint] = float([READY, *goals][row][joint])
    goal_set = base.GoalStates(setup.getSpaceInformation())
    for state in states[1:]:
        goal_set.addState(state)
    setup.setStartState(states[0])
    setup.setGoal(goal_set)
    setup.setPlanner(geometric.RRTConnect(setup.getSpaceInformation()))
    setup.solve(seconds)
    setup.simplifySolution(seconds)
    return float(setup.getSolutionPath().length()) if setup.haveExactSolutionPath() else np.nan


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenes", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=1.0, help="to plan, and again to simplify [s]")
    arguments = parser.parse_args()
    util.noOutputHandler(), util.RNG.setSeed(1)
    rng, robot, lengths = np.random.default_rng(0), Robot("panda"), []
    model, plain = CollisionModel(robot), Sampler(robot)
    while len(lengths) < arguments.scenes:
        places = rng.uniform(-0.7, 0.7, (20, 2))
        posts = [Box([0.08, 0.08, 1.0], at=[x, y, 0.5]) for x, y in places if np.hypot(x, y) > 0.25]
        pose = [*rng.uniform([0.2, -0.6, 0.1], [0.7, 0.6, 0.6]), 1.0, 0.0, 0.0, 0.0]  # the hand points down
        scene, sampler = model.scene(True, posts), plain.with_constraints(obstacles=posts, self_collision=True)
        if not scene.colliding(READY[None])[0] and (nearest := sampler.sample(pose, 10, near=READY, seed=0)):
            goal_sets = (sampler.sample(pose, 1, seed=0).q, nearest[:1].q, nearest.q)
            lengths.append([plan(robot, scene, goals, arguments.seconds) for goals in goal_sets])
    for name, column in zip(("any solution", "nearest", "ten nearest"), np.transpose(lengths), strict=True):
        mean = np.mean(column[~np.isnan(lengths).any(axis=1)])  # scenes that all three goal sets solved
        print(f"{name:12s}: {np.mean(~np.isnan(column)):4.0%} solved, mean length {mean:.2f} rad")
