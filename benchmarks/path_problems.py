"""Path problems of TORM and CppFlow, solved by `Sampler.follow`, with an independent judge and published lengths.

    python -m benchmarks.path_problems DATA [--seeds 3] [--timeout 60] [--only NAME] [--output FILE]

DATA is a checkout of github.com/jstmn/cppflow (MIT licence, commit c92e0a4). Its folder `cppflow` contains the problems
and paths. The robots are our `fetch` and `panda`, with their collision shapes.

The judge reads the URDF with pinocchio, and uses neither our kinematics nor our collision checks. A path is valid if
each pose is reached to 0.1 mm and 0.1 deg, if all joints are within their limits, and if nothing collides. Between
poses, revolute joints may move by at most 7 deg, and prismatic joints by at most 2 cm. Pairs of links are ignored if
they are neighbours, or collide in more than 95 % of random configurations.

Lengths are sums over all joints and steps, in radians for revolute joints and in metres for the torso.
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import csv
import platform
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import coal
import numpy as np
import pinocchio
import yaml

from benchmarks._machine import load_average, processor, versions
from eim_ros import Box, Sampler
from eim_ros.ik import Constraints
from eim_ros.kinematics import Robot, robot_path

FloatArray = np.ndarray[Any, np.dtype[np.float64]]

TORSO_AT_ZERO = np.array([-0.086875, 0.0, 0.37743])  # origin of torso_lift_link in base_link with the torso down [m]
PUBLISHED: dict[str, tuple[float, float] | None] = {  # TORM: [rad], [m]
    "fetch_arm__circle": (11.105, 0.0),
    "fetch_arm__hello": (61.029, 0.0),
    "fetch_arm__rot_yz2": (29.913, 0.0),
    "fetch_arm__s": (10.856, 0.0),
    "fetch_arm__square": (14.841, 0.0),
    "fetch__circle": (22.042, 0.498),
    "fetch__hello": None,
    "fetch__rot_yz2": (30.419, 0.841),
    "fetch__s": None,
    "fetch__square": (19.577, 0.564),
    "panda__1cube": (8.493, 0.0),
    "panda__2cubes": (12.628, 0.0),
    "panda__flappy_bird": None,
    "fetch_arm__rot_yz": None,  # the last three problems were not used during development
    "fetch__rot_yz": None,
    "panda__square": None,
}
MAX_REVOLUTE, MAX_PRISMATIC = np.deg2rad(7.0), 0.02  # [rad], [m]
MAX_POSITION, MAX_ORIENTATION = 1e-4, np.deg2rad(0.1)  # [m], [rad]
ROUNDING = 1e-7
N_RANDOM = 300  # number of random configurations that decide which links always collide


@dataclass(frozen=True, eq=False)
class PathProblem:
    """A robot, poses (n_poses, 4, 4) of its tip, and constraints."""

    robot: str
    tip: str
    poses: FloatArray
    constraints: Constraints

    @classmethod
    def read(cls, data: Path, name: str) -> PathProblem:
        """Read a problem from a checkout of cppflow."""
        text = yaml.safe_load((data / "cppflow" / "problems" / f"{name}.yaml").read_text(encoding="utf-8"))
        with (data / "cppflow" / "paths" / f"{text['path_name']}.csv").open(encoding="utf-8") as file:
            rows = np.array([[float(x) for x in row] for row in list(csv.reader(file))[1:]])
        offset = TORSO_AT_ZERO if text["path_offset_frame"] == "torso_lift_link" else np.zeros(3)
        poses = np.tile(np.eye(4), (len(rows), 1, 1))
        poses[:, :3, 3] = rows[:, 1:4] + np.array(text["path_xyz_offset"]) + offset
        for pose, (w, x, y, z) in zip(poses, rows[:, 4:8], strict=True):
            rotation = pinocchio.Quaternion(w, x, y, z).normalized().toRotationMatrix()
            pose[:3, :3] = rotation @ np.array(text["path_R_offset"], dtype=float)
        obstacles = []
        for entry in text.get("obstacles", ()):
            box = {key: value for part in entry for key, value in part.items()}
            centre = np.array([box[key] for key in "xyz"]) + np.array(text["obstacle_xyz_offset"])
            obstacles.append(Box(tuple(box[f"size_{key}"] for key in "xyz"), at=tuple(centre)))
        is_arm, is_panda = name.startswith("fetch_arm"), name.startswith("panda")
        fixed = {"torso_lift_joint": 0.0} if is_arm else {}
        constraints = Constraints(fixed=fixed, self_collision=True, obstacles=obstacles)
        if is_panda:  # the hand is turned by -45 degrees relative to link 8, the tip of our model
            poses[:, :3, :3] = poses[:, :3, :3] @ pinocchio.rpy.rpyToMatrix(0.0, 0.0, np.pi / 4.0)
        return cls("panda" if is_panda else "fetch", "panda_link8" if is_panda else "gripper_link", poses, constraints)


def slides(joint_names: tuple[str, ...]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which joints are prismatic (dof,)."""
    return np.array([name == "torso_lift_joint" for name in joint_names])


class Judge:
    """Checks of paths with pinocchio and coal, for one problem."""

    def __init__(self, problem: PathProblem, joint_names: tuple[str, ...]) -> None:
        urdf = str(robot_path(problem.robot))
        self.problem, self.joint_names = problem, joint_names
        self.model = model = pinocchio.buildModelFromUrdf(urdf)
        self.data, self.tip = model.createData(), model.getFrameId(problem.tip)
        self.geometry = shapes = pinocchio.buildGeomFromUrdf(model, urdf, pinocchio.GeometryType.COLLISION)
        n_shapes = len(shapes.geometryObjects)
        for number, box in enumerate(problem.constraints.obstacles):
            placement = pinocchio.SE3(np.eye(3), box.pose[:3, 3])
            shapes.addGeometryObject(pinocchio.GeometryObject(f"box{number}", 0, placement, coal.Box(*box.size)))
        parents = [shape.parentJoint for shape in shapes.geometryObjects]
        for first in range(n_shapes):
            for second in range(first + 1, n_shapes):
                a, b = parents[first], parents[second]
                if a != b and model.parents[a] != b and model.parents[b] != a:
                    shapes.addCollisionPair(pinocchio.CollisionPair(first, second))
            if parents[first] != 0:  # the base does not move
                for number in range(n_shapes, len(parents)):
                    shapes.addCollisionPair(pinocchio.CollisionPair(first, number))
        self._drop_constant_pairs(n_shapes, parents)

    def _drop_constant_pairs(self, n_shapes: int, parents: list[int]) -> None:
        """Remove the pairs of links that almost always collide."""
        rng, data = np.random.default_rng(0), self.geometry.createData()
        counts: dict[tuple[int, int], int] = {}
        low, high = self.model.lowerPositionLimit, self.model.upperPositionLimit
        limited = np.isfinite(low) & np.isfinite(high) & (np.abs(low) < 1e3)
        for _ in range(N_RANDOM):
            q = np.where(limited, rng.uniform(np.where(limited, low, 0.0), np.where(limited, high, 1.0)), 0.0)
            q = pinocchio.normalize(self.model, q + np.where(limited, 0.0, rng.normal(size=len(q))))
            pinocchio.computeCollisions(self.model, self.data, self.geometry, data, q, False)
            hit = {
                tuple(sorted((parents[pair.first], parents[pair.second])))
                for pair, result in zip(self.geometry.collisionPairs, data.collisionResults, strict=True)
                if result.isCollision() and max(pair.first, pair.second) < n_shapes
            }
            for links in hit:
                counts[links] = counts.get(links, 0) + 1
        for pair in list(self.geometry.collisionPairs):
            links = tuple(sorted((parents[pair.first], parents[pair.second])))
            if max(pair.first, pair.second) < n_shapes and counts.get(links, 0) > 0.95 * N_RANDOM:
                self.geometry.removeCollisionPair(pair)

    def full(self, row: FloatArray) -> FloatArray:
        """Return a configuration (dof,) in the form of pinocchio."""
        found = pinocchio.neutral(self.model)
        for name, value in zip(self.joint_names, row, strict=True):
            joint = self.model.joints[self.model.getJointId(name)]
            found[joint.idx_q : joint.idx_q + joint.nq] = [value] if joint.nq == 1 else [np.cos(value), np.sin(value)]
        return found

    def faults(self, q: FloatArray) -> list[str]:
        """Return the reasons why a path (n_poses, dof) is invalid; empty if it is valid."""
        if np.isnan(q).any():
            return ["gaps"]
        model, data, collisions = self.model, self.data, self.geometry.createData()
        found, worst, n_colliding, is_within = list[str](), np.zeros(2), 0, True
        for row, pose in zip(q, self.problem.poses, strict=True):
            full = self.full(row)
            pinocchio.framesForwardKinematics(model, data, full)
            reached = data.oMf[self.tip]
            turn = pinocchio.log3(reached.rotation.T @ pose[:3, :3])
            worst = np.maximum(worst, [np.linalg.norm(reached.translation - pose[:3, 3]), np.linalg.norm(turn)])
            n_colliding += pinocchio.computeCollisions(model, data, self.geometry, collisions, full, True)
            low, high = model.lowerPositionLimit - ROUNDING, model.upperPositionLimit + ROUNDING
            is_within &= bool(((full >= low) & (full <= high)).all())
        if worst[0] > MAX_POSITION or worst[1] > MAX_ORIENTATION:
            found.append(f"off by {1e3 * worst[0]:.3g} mm, {np.rad2deg(worst[1]):.3g} deg")
        largest, slide = np.abs(np.diff(q, axis=0)).max(axis=0), slides(self.joint_names)
        if (largest > np.where(slide, MAX_PRISMATIC, MAX_REVOLUTE) * (1.0 + ROUNDING)).any():
            found.append(
                f"steps of {np.rad2deg(largest[~slide].max()):.3g} deg, {largest[slide].max(initial=0.0):.3g} m"
            )
        if not is_within:
            found.append("beyond limits")
        if n_colliding:
            found.append(f"{n_colliding} poses collide")
        return found


def judged(data: Path, name: str, seed: int, timeout: float, objective: Any) -> str:
    """Follow one path and return a line of the table."""
    problem = PathProblem.read(data, name)
    robot = Robot(problem.robot, tip=problem.tip)
    sampler = Sampler(robot).with_constraints(problem.constraints)
    steps = np.where(slides(robot.joint_names), MAX_PRISMATIC, MAX_REVOLUTE)
    began, began_cpu = time.perf_counter(), time.process_time()
    path = sampler.follow(problem.poses, max_step=steps, objective=objective, seed=seed, timeout=timeout)
    wall, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    wrong = Judge(problem, robot.joint_names).faults(path.q)
    moved = np.abs(np.diff(path.q, axis=0)).sum(axis=0)
    radians, metres = moved[~slides(robot.joint_names)].sum(), moved[slides(robot.joint_names)].sum()
    published = PUBLISHED.get(name)
    told = "none" if published is None else f"{published[0]:.3f} / {published[1]:.3f}"
    verdict = "valid" if path and not wrong else f"{path.message}; judge: {', '.join(wrong) or 'valid'}"
    length = f"{radians:8.3f} / {metres:.3f}"
    return f"{name:<20}{len(path.q):5}{seed:4}  {length}  {told:>15}  {wall:6.1f} {cpu:6.1f}  {verdict}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="checkout of jstmn/cppflow")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=600.0)
    parser.add_argument("--objective", default="length", choices=("squares", "length", "largest_step", "none"))
    parser.add_argument("--only", default="", help="follow only paths whose names begin with this text")
    parser.add_argument("--output", type=Path, help="also write the lines to this file")
    args = parser.parse_args()
    told = [
        f"path problems of TORM and CppFlow, objective {args.objective}, timeout {args.timeout:g} s, one thread",
        f"{processor()}, load {load_average()}",
        f"Python {platform.python_version()}; {versions(('eim_ros', 'numpy', 'scipy', 'pin'))}",
        "",
        f"{'problem':<20}poses seed  rad / m  {'TORM rad / m':>20}  wall s  CPU s  verdict",
    ]
    print("\n".join(told), flush=True)
    objective = None if args.objective == "none" else args.objective
    names = [name for name in PUBLISHED if name.startswith(args.only)]
    for seed in range(args.seeds):
        for name in names:
            told.append(judged(args.data, name, seed, args.timeout, objective))
            print(told[-1], flush=True)
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text("\n".join(told) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
