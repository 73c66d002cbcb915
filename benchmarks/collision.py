"""Times of collision checks on one thread: capsules, the same shapes as meshes and hulls, with and without a scene.

    python -m benchmarks.collision [--robot panda] [--rows 2000] [--output benchmarks/results/collision.txt]

The capsules of the robot are divided into TRIANGLES triangles each, written as STL, and read as the meshes of a URDF.
The robot is therefore checked in three forms. A time is the minimum CPU time of REPEATS runs per uniform random
configuration. The first check of a scene includes its preparation and is reported separately. `sample` is the median
CPU time of a call for 100 solutions over all poses, with the share of calls that found 100 solutions.
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks._machine import load_average, processor, versions
from eim_ros.ik import Constraints, Sampler
from eim_ros.kinematics import Box, Capsule, CollisionOptions, Mesh, Obstacle, PointCloud, Robot, pose_from
from eim_ros.kinematics.collision import CollisionModel
from eim_ros.kinematics.links import link_shapes

RINGS, SECTORS = 17, 32  # numbers for each capsule
TRIANGLES = 2 * SECTORS * RINGS
REPEATS = 3
POSES = 8


def capsule_mesh(radius: float, length: float) -> np.ndarray:
    """Return triangles (m, 3, 3) of a capsule along z. Their vertices are on the surface of the capsule."""
    polar = np.linspace(0.0, np.pi, RINGS + 1)[1:-1]
    half = len(polar) // 2
    heights = radius * np.cos(polar) + np.where(np.arange(len(polar)) < half, 0.5, -0.5) * length
    turns = 2.0 * np.pi * np.arange(SECTORS) / SECTORS
    rings = np.array([[(radius * np.sin(p) * np.cos(t), radius * np.sin(p) * np.sin(t), z) for t in turns]
                      for p, z in zip(polar, heights, strict=True)])  # fmt: skip
    top, bottom = (np.tile((0.0, 0.0, sign * (0.5 * length + radius)), (1, SECTORS, 1)) for sign in (1.0, -1.0))
    rings = np.concatenate([top, rings, bottom])
    upper, lower = rings[:-1], rings[1:]
    ahead, below = np.roll(upper, -1, axis=1), np.roll(lower, -1, axis=1)
    return np.concatenate([np.stack([upper, lower, below], axis=2), np.stack([upper, below, ahead], axis=2)]).reshape(
        -1, 3, 3
    )


def write_stl(path: Path, triangles: np.ndarray) -> None:
    records = np.zeros(len(triangles), dtype=[("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("rest", "<u2")])
    records["corners"] = triangles
    path.write_bytes(b"\0" * 80 + np.uint32(len(triangles)).tobytes() + records.tobytes())


def meshed(robot: Robot, folder: Path) -> Robot:
    """Return the robot with each capsule replaced by a mesh at the same pose."""
    from xml.etree import ElementTree

    description = ElementTree.fromstring(robot.urdf)
    for link, shapes in link_shapes(robot.urdf).items():
        element = next(each for each in description.findall("link") if each.get("name") == link)
        for collision in element.findall("collision"):
            element.remove(collision)
        for i, shape in enumerate(shapes):
            assert isinstance(shape, Capsule)
            pose, path = np.asarray(shape.pose), folder / f"{link}_{i}.stl"
            write_stl(path, capsule_mesh(shape.radius, shape.length) @ pose[:3, :3].T + pose[:3, 3])
            geometry = ElementTree.SubElement(ElementTree.SubElement(element, "collision"), "geometry")
            ElementTree.SubElement(geometry, "mesh", filename=str(path))
    return Robot(ElementTree.tostring(description, encoding="unicode"), robot.tip_link, base=robot.base_link)


def scenes(rng: np.random.Generator) -> dict[str, tuple[Obstacle, ...]]:
    walls = (Box(pose_from((0.75, 0.0, 0.5)), (0.02, 1.0, 1.0)), Box(pose_from((0.55, 0.5, 0.5)), (0.4, 0.02, 1.0)),
             Box(pose_from((0.55, -0.5, 0.5)), (0.4, 0.02, 1.0)), Box(pose_from((0.55, 0.0, 0.5)), (0.4, 1.0, 0.02)),
             Box(pose_from((0.55, 0.0, 0.0)), (0.4, 1.0, 0.02)))  # fmt: skip
    boxes = tuple(Box(pose_from(rng.uniform((0.3, -1.0, 0.0), (1.0, 1.0, 1.0))), (0.05,) * 3) for _ in range(100))
    corners = np.array([np.asarray(wall.size) for wall in walls])
    cube = np.array([[i & 1, i >> 1 & 1, i >> 2 & 1] for i in range(8)]) - 0.5
    faces = np.array([[0, 2, 1], [1, 2, 3], [4, 5, 6], [5, 7, 6], [0, 1, 4], [1, 5, 4], [2, 6, 3], [3, 6, 7],
                      [0, 4, 2], [2, 4, 6], [1, 3, 5], [3, 7, 5]])  # fmt: skip
    vertices = np.concatenate(
        [cube * size + np.asarray(wall.pose)[:3, 3] for wall, size in zip(walls, corners, strict=True)]
    )
    shelf = Mesh(np.eye(4), vertices, np.concatenate([faces + 8 * i for i in range(len(walls))]))
    surface = np.concatenate(
        [rng.uniform(-0.5, 0.5, (20_000, 3)) * np.asarray(wall.size) + np.asarray(wall.pose)[:3, 3] for wall in walls]
    )
    return {
        "itself": (),
        "and 5 boxes, a shelf": walls,
        "and 100 boxes": boxes,
        "and a shelf, 1 mesh": (shelf,),
        "and 10 000 points of it": (PointCloud(surface[::10], 0.005),),
        "and 100 000 points of it": (PointCloud(surface, 0.005),),
        "the same, resolution .02": (PointCloud(surface, 0.005, resolution=0.02),),
    }


def check_times(model: CollisionModel, obstacles: Sequence[Obstacle], rows: np.ndarray) -> tuple[float, float, float]:
    """Return the CPU seconds of the first check and of further checks, and the share of collisions."""
    firsts, rests = [], []
    for _ in range(REPEATS):
        began = time.process_time()
        scene = model.scene(True, obstacles)
        scene.colliding(rows[:1])
        firsts.append(time.process_time() - began)
        began = time.process_time()
        found = scene.colliding(rows)
        rests.append((time.process_time() - began) / len(rows))
    return firsts[0], min(rests), float(found.mean())


def sample_times(robot: Robot, constraints: Constraints | None, poses: np.ndarray) -> tuple[float, float]:
    """Return the median CPU seconds of a call for 100 solutions, and the share of calls that found 100."""
    sampler = Sampler(robot).with_constraints(constraints)
    seconds, full = [], 0
    for seed, pose in enumerate(poses):
        began = time.process_time()
        samples = sampler.sample(pose, 100, timeout=60.0, seed=seed)
        seconds.append(time.process_time() - began)
        full += int(samples.valid.sum()) == 100
    return float(np.median(seconds)), full / len(poses)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robot", default="panda")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=None)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    plain = Robot(args.robot)
    rows = plain.random(args.rows, rng)
    worlds = scenes(rng)
    lines: list[str] = []

    def tell(line: str) -> None:
        lines.append(line)
        print(line, flush=True)

    tell(f"{args.robot}, {args.rows} configurations, seed {args.seed}; {processor()}; load {load_average()}")
    tell(versions(["pin", "coal", "numpy"]) + "\n")
    tell(f"us per check, k checks per s, first check ms, colliding %; meshes of {TRIANGLES} triangles a link\n")
    with tempfile.TemporaryDirectory() as folder:
        exact = meshed(plain, Path(folder))
        robots = {"capsules": plain, "hulls": exact.with_collision_options(CollisionOptions("hulls")), "meshes": exact}
        models = {}
        for name, robot in robots.items():
            began = time.process_time()
            models[name] = CollisionModel(robot)
            tell(f"{name}: read and prepared in {time.process_time() - began:.2f} s")
        tell(f"\n{'':26}" + "".join(f"{name:>32}" for name in robots))
        for what, obstacles in worlds.items():
            cells = []
            for model in models.values():
                first, each, share = check_times(model, obstacles, rows)
                cells.append(f"{1e6 * each:8.1f} {1e-3 / each:7.1f} {1e3 * first:8.1f} {100.0 * share:5.1f}")
            tell(f"{what:26}" + "".join(f"{cell:>32}" for cell in cells))
        poses = plain.fk(plain.random(10 * POSES, rng))
        poses = poses[poses[:, 0, 3] > 0.3][:POSES]  # poses in front of the arm, where the shelf is
        tell("\nsample(pose, 100): ms a call, share of calls with 100\n")
        asked = {"nothing": None, "itself": Constraints(self_collision=True)}
        asked |= {what: Constraints(self_collision=True, obstacles=worlds[what]) for what in worlds if what != "itself"}
        for what, constraints in asked.items():
            cells = []
            for robot in robots.values():
                seconds, share = sample_times(robot, constraints, poses)
                cells.append(f"{1e3 * seconds:8.1f} {100.0 * share:4.0f} %")
            tell(f"{what:26}" + "".join(f"{cell:>32}" for cell in cells))
    if args.output is not None:
        args.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
