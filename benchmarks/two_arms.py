"""Relative poses of two arms: the chain of 14 joints compared with random restarts and with one arm at random.

    python -m benchmarks.two_arms [--poses 50] [--starts 50] [--seed 0] [--output benchmarks/results/two_arms.txt]

A Panda and an iiwa stand 0.6 m apart. The relative poses of the hands are those of random configurations without
collisions, so each has solutions. Methods:

  chain         `Sampler.sample` of the chain from hand to hand, with self-collision
  restarts      damped Gauss-Newton steps for all 14 joints from random starts, with kinematics of pinocchio; see
                _pinocchio_restarts.py. Collisions are checked afterwards, and their time does not count
  one at random one arm in a random configuration, and one solution of the other by its closed form

Columns:

  solutions  found per pose
  solved     poses with a solution free of collisions
  reached    attempts that reach the pose; every solution of `chain` is an attempt
  free       solutions free of collisions
  us         CPU time for one solution free of collisions [us]
  error      largest error of the solutions by pinocchio [m], and of the entries of rotation matrices
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks._machine import conditions, print_table
from benchmarks._pinocchio_restarts import Restarts
from eim_ros.ik import Constraints, Sampler
from eim_ros.kinematics import Robot
from eim_ros.kinematics.collision import CollisionModel

ARMS = {"panda": "0 0.3 0", "iiwa14": "0 -0.3 0"}  # positions in the world [m]
HEADER = f"{'method':16}{'solutions':>10}{'solved':>8}{'reached':>9}{'free':>7}{'us':>9}{'error':>10}"


def pair_urdf() -> str:
    """Return a URDF with both arms."""
    text = '<robot name="pair"><link name="world"/>'
    for name, xyz in ARMS.items():
        robot = Robot(name)
        body = re.sub(r'\b(name|link|joint)="', rf'\1="{name}_', robot.urdf)
        mount = f'<parent link="world"/><child link="{name}_{robot.base_link}"/><origin xyz="{xyz}"/>'
        text += body[body.index(">") + 1 : body.rindex("</robot>")]
        text += f'<joint name="{name}_mount" type="fixed">{mount}</joint>'
    return text + "</robot>"


def rows(args: argparse.Namespace) -> Iterator[str]:
    """Compare the methods on the same poses."""
    text, rng = pair_urdf(), np.random.default_rng(args.seed)
    left, right = (Robot(text, f"{name}_{Robot(name).tip_link}", base="world") for name in ARMS)
    pair = Robot(text, right.tip_link, base=left.tip_link)
    scene = CollisionModel(pair).scene(True)
    sampler, other = Sampler(pair, constraints=Constraints(self_collision=True)), Sampler(right)
    hands = [Restarts.of(each) for each in (left, right)]
    q = pair.random(100 * args.poses, rng)
    poses = pair.fk(q[~scene.colliding(q)][: args.poses])

    def chain(pose: np.ndarray) -> tuple[np.ndarray, int]:
        found = sampler.sample(pose, args.starts, seed=0, timeout=60.0).q
        return found, len(found)

    def restarts(pose: np.ndarray) -> tuple[np.ndarray, int]:
        q, reached = Restarts.solve_pair(*hands, np.repeat(pose[None], args.starts, axis=0), rng)
        return q[reached], args.starts

    def one_at_random(pose: np.ndarray) -> tuple[np.ndarray, int]:
        first = left.random(args.starts, rng)
        found = other.solve_batch(left.fk(first) @ pose, seed=0, n_threads=1, timeout=60.0)
        return np.concatenate([first[found.n_valid > 0][:, ::-1], found.q], axis=1), args.starts

    def error(q: np.ndarray, pose: np.ndarray) -> float:
        to_left, to_right = hands[0].forward(q[:, 6::-1])[0], hands[1].forward(q[:, 7:])[0]
        return float(np.abs(to_left @ pose - to_right).max(initial=0.0))

    methods: dict[str, Callable[[np.ndarray], tuple[np.ndarray, int]]]
    methods = {"chain": chain, "restarts": restarts, "one at random": one_at_random}
    for name, method in methods.items():
        n_found = n_free = n_tried = n_solved = 0
        spent = worst = 0.0
        method(poses[0])
        for pose in poses:
            began = time.process_time()
            found, tried = method(pose)
            spent += time.process_time() - began
            is_free = ~scene.colliding(found) if len(found) else np.zeros(0, dtype=bool)
            worst = max(worst, error(found, pose))
            n_found, n_free, n_tried = n_found + len(found), n_free + int(is_free.sum()), n_tried + tried
            n_solved += bool(is_free.any())
        yield (
            f"{name:16}{n_found / len(poses):10.1f}{n_solved:5d}/{len(poses)}{n_found / n_tried:9.1%}"
            f"{n_free / n_found:7.1%}{1e6 * spent / n_free:9.0f}{worst:10.0e}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poses", type=int, default=50)
    parser.add_argument("--starts", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    head = [
        f"{args.poses} relative poses, {args.starts} solutions or starts each, seed {args.seed}",
        conditions(("numpy", "pin", "eim_ros")),
        "",
        HEADER,
    ]
    print_table(head, rows(args), args.output)


if __name__ == "__main__":
    main()
