"""Calls with more work than their timeout allows: their durations, their outcomes, and their peak memory.

    python -m benchmarks.deadlines [--repeats 3] [--case NAME ...] [--output benchmarks/results/deadlines.txt]

Each case is the first call of its kind in a separate process, so shapes are prepared within the call. MEMORY limits the
address space. A call is within its bound if it takes at most 1.1 timeouts plus 50 ms. The table lists the fastest of
the repeats. It also lists the CPU time, because a call on a busy machine waits for a core.
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._machine import load_average, processor, versions
from eim_ros.ik import Completeness, Sampler
from eim_ros.kinematics import Box, Mesh, Obstacle, PointCloud, Robot, Sphere, pose_from

ITSELF = [sys.executable, "-m", "benchmarks.deadlines"]

MEMORY = 2 << 30  # limit of the address space [byte]
SHARE, REST = 0.1, 0.05  # a call may exceed its timeout by this share, plus this constant [s]
POSE = pose_from((0.4, 0.1, 0.5), (1.0, 0.0, 0.0, 0.0))

Call = Callable[[float], Any]
Prepare = Callable[[np.random.Generator], Call]


def panda() -> Sampler:
    sampler = Sampler("panda")
    sampler.sample(POSE, 10)  # so that imports are not part of a timed call
    sampler.prepare()
    return sampler


def wide(name: str = "panda", turns: int = 1) -> Sampler:
    """Return a sampler for an arm whose joints can all turn by `turns` revolutions to both sides."""
    robot, limit = Robot(name), 2.0 * np.pi * turns - 1e-5
    words = [
        f'{word.partition("=")[0]}="{-limit if word.startswith("lower") else limit}"'
        if word.startswith(("lower=", "upper="))
        else word
        for word in robot.urdf.replace("/>", " />").split(" ")
    ]
    return Sampler(Robot(" ".join(words), robot.tip_link, base=robot.base_link))


def points(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return points (n, 3) [m] in front of the arm, most of them out of reach."""
    return rng.uniform((-2.0, -2.0, -1.0), (2.0, 2.0, 3.0), (n, 3)) + (2.6, 0.0, 0.0)


def boxes(rng: np.random.Generator, n: int) -> tuple[Obstacle, ...]:
    return tuple(Box(pose_from(point), (0.01, 0.01, 0.01)) for point in points(rng, n))


def bowl(n_triangles: int) -> Mesh:
    """Return a sphere around the arm that is open below. Its hull contains all links, but its surface touches none."""
    n = int(np.sqrt(n_triangles / 2.0))
    polar, turns = np.linspace(0.0, 0.9 * np.pi, n + 1), 2.0 * np.pi * np.arange(n) / n
    rings = np.array([[(np.sin(p) * np.cos(t), np.sin(p) * np.sin(t), np.cos(p)) for t in turns] for p in polar])
    row, column = (each.reshape(-1) for each in np.meshgrid(np.arange(n), np.arange(n), indexing="ij"))
    here, right = row * n + column, row * n + (column + 1) % n
    faces = np.concatenate([np.stack([here, here + n, right], 1), np.stack([right, here + n, right + n], 1)])
    return Mesh(np.eye(4), 1.8 * rings.reshape(-1, 3), faces)


def hull(mesh: Mesh) -> Mesh:
    return Mesh(mesh.pose, mesh.vertices, mesh.faces, convex=True)


def among_obstacles(obstacles: tuple[Obstacle, ...], sampler: Sampler, **constraints: Any) -> Call:
    return sampled(sampler.with_constraints(obstacles=obstacles, **constraints))


def any_orientation() -> Sampler:
    return panda().with_constraints(position_only=True)


def sampled(sampler: Sampler, n: int = 100, pose: np.ndarray = POSE, **options: Any) -> Call:
    return lambda timeout: sampler.sample(pose, n, timeout=timeout, seed=0, **options)


def solved_all(sampler: Sampler, **options: Any) -> Call:
    return lambda timeout: sampler.solve_all(POSE, max_solutions=1_000_000, timeout=timeout, seed=0, **options)


def drawn(sampler: Sampler, n: int) -> Call:
    return lambda timeout: sampler.draw(POSE, n, "uniform", timeout=timeout, seed=0)


def poses_of(sampler: Sampler, rng: np.random.Generator, n: int) -> np.ndarray:
    return sampler.robot.fk(sampler.robot.random(n, rng))


def batch(rng: np.random.Generator, n_poses: int, n: int, **constraints: Any) -> Call:
    sampler = panda().with_constraints(**constraints)
    poses = poses_of(sampler, rng, n_poses)
    return lambda timeout: sampler.sample_batch(poses, n, timeout=timeout, seed=0)


def stream(rng: np.random.Generator) -> Call:
    sampler = panda()
    poses = poses_of(sampler, rng, 100_000)
    return lambda timeout: list(sampler.stream(poses, timeout=timeout, seed=0, n=20))


def mesh_robot(rng: np.random.Generator) -> Call:
    """Return a call for a robot whose links are meshes. The files are read during the call."""
    from benchmarks.collision import meshed  # imported here, because it imports coal

    folder = tempfile.mkdtemp()
    sampler = Sampler(meshed(Robot("panda"), Path(folder)))
    sampler.sample(POSE, 10)
    return sampled(sampler.with_constraints(self_collision=True))


def large_file(rng: np.random.Generator) -> Call:
    """Return a call that loads a mesh file of 100 MB."""
    path = Path(tempfile.mkdtemp()) / "large.stl"
    n = 2_000_000
    with path.open("wb") as file:
        file.write(b"\0" * 80 + np.uint32(n).tobytes())
        file.truncate(84 + 50 * n)
    return lambda timeout: Mesh.load(path)


def service(rng: np.random.Generator, n_boxes: int, n_points: int) -> Call:
    """Return a call that answers a request like a worker thread of `ik_server`, without the transport."""
    from shape_msgs.msg import SolidPrimitive

    from eim_ros.nodes.common.interfaces import SampleIK
    from eim_ros.nodes.common.messages import point_cloud_message, pose_message
    from eim_ros.nodes.ik_server.handlers import SERVICES
    from eim_ros.nodes.ik_server.messages import RequestContext
    from eim_ros.nodes.settings import IkServerSettings

    sampler, settings, request = panda(), IkServerSettings(), SampleIK.Request()
    request.poses, request.n_samples = [pose_message(POSE)], 100
    scene = request.constraints.scene
    scene.primitives = [SolidPrimitive(type=SolidPrimitive.BOX, dimensions=[0.01] * 3) for _ in range(n_boxes)]
    scene.primitive_poses = [pose_message(pose_from(point)) for point in points(rng, n_boxes)]
    if n_points:
        scene.point_clouds = [point_cloud_message(points(rng, n_points))]
        scene.point_radius = 0.005
    response = SampleIK.Response()

    def call(timeout: float) -> Any:
        arrival = time.monotonic()
        request.timeout = timeout
        context = RequestContext(sampler.robot, arrival=arrival)
        parsed = SERVICES["~/sample_ik"][1](request, response, context, settings)
        parsed.solve(sampler, (), timeout - (time.monotonic() - arrival))
        return response

    return call


def service_batch(rng: np.random.Generator) -> Call:
    """Return a call that answers a request with 10 000 poses like a worker thread of `ik_server`."""
    from eim_ros.nodes.common.interfaces import SampleIK
    from eim_ros.nodes.common.messages import pose_message
    from eim_ros.nodes.ik_server.handlers import SERVICES
    from eim_ros.nodes.ik_server.messages import RequestContext
    from eim_ros.nodes.settings import IkServerSettings

    sampler, settings, request = panda(), IkServerSettings(), SampleIK.Request()
    request.poses = [pose_message(pose) for pose in poses_of(sampler, rng, 10_000)]
    request.n_samples = 1
    response = SampleIK.Response()

    def call(timeout: float) -> Any:
        request.timeout, arrival = timeout, time.monotonic()
        context = RequestContext(sampler.robot, arrival=arrival)
        parsed = SERVICES["~/sample_ik"][1](request, response, context, settings)
        parsed.solve(sampler, (), timeout - (time.monotonic() - arrival))
        return response

    return call


CASES: dict[str, tuple[float, Prepare]] = {
    "10 000 boxes": (0.5, lambda rng: among_obstacles(boxes(rng, 10_000), panda())),
    "10 000 boxes, enough time": (10.0, lambda rng: among_obstacles(boxes(rng, 10_000), panda())),
    "20 000 boxes, and itself": (0.5, lambda rng: among_obstacles(boxes(rng, 20_000), panda(), self_collision=True)),
    "20 000 boxes, 20 ms": (0.02, lambda rng: among_obstacles(boxes(rng, 20_000), panda())),
    "30 000 boxes, over the limit": (0.5, lambda rng: among_obstacles(boxes(rng, 30_000), panda())),
    "cloud of 200 000 points": (0.5, lambda rng: among_obstacles((PointCloud(points(rng, 200_000), 0.005),), panda())),
    "cloud of 200 000 points, enough time": (
        20.0, lambda rng: among_obstacles((PointCloud(points(rng, 200_000), 0.005),), panda()),
    ),
    "cloud of 2e6 points, over the limit": (
        0.5, lambda rng: among_obstacles((PointCloud(points(rng, 2_000_000), 0.005),), panda()),
    ),
    "cloud of 2e6 points, resolution 0.1": (
        0.5, lambda rng: among_obstacles((PointCloud(points(rng, 2_000_000), 0.005, resolution=0.1),), panda()),
    ),
    "mesh of 20 000 triangles around the arm": (0.5, lambda rng: among_obstacles((bowl(20_000),), panda())),
    "mesh of 190 000 triangles, its hull": (
        0.5, lambda rng: among_obstacles((hull(bowl(190_000)),), panda()),
    ),
    "400 meshes": (0.5, lambda rng: among_obstacles(
        tuple(Mesh(pose_from(point), bowl(20).vertices, bowl(20).faces) for point in 3.0 * points(rng, 400)), panda(),
    )),
    "links are meshes, first call": (0.02, mesh_robot),
    "mesh file of 100 MB": (0.5, large_file),
    "1000 balls, clearance, posture": (0.1, lambda rng: sampled(
        panda().with_constraints(obstacles=[Sphere(p, 0.01) for p in points(rng, 1000)], clearance=0.02),
        1000, posture={"panda_joint1": 0.3},
    )),
    "max_spacing 0.01, joints of two turns": (0.001, lambda rng: solved_all(wide(), max_spacing=0.01)),
    "max_spacing 0.01, joints of two turns, 1 s": (1.0, lambda rng: solved_all(wide(), max_spacing=0.01)),
    "missed share 1e-7, joints of two turns": (
        0.1, lambda rng: solved_all(wide(), guarantee=Completeness(missed_share=1e-7)),
    ),
    "n = 100 000": (0.001, lambda rng: sampled(panda(), 100_000)),
    "n = 1 000 000": (0.1, lambda rng: sampled(panda(), 1_000_000)),
    "n = 1 000 000, six joints of ten turns": (
        0.1, lambda rng: sampled(wide("ur10e", 5), 1_000_000, pose=Robot("ur10e").fk(np.full(6, 0.7))),
    ),
    "n = 100 000, any orientation": (0.5, lambda rng: sampled(any_orientation(), 100_000)),
    "n = 2000, any orientation, spread": (0.2, lambda rng: sampled(any_orientation(), 2000, diversity=1.0)),
    "n = 20 000, posture, any orientation": (
        0.2, lambda rng: sampled(any_orientation(), 20_000, posture={"panda_joint2": 0.3}),
    ),
    "n = 20 000, order manipulability": (
        0.3, lambda rng: sampled(any_orientation(), 20_000, order="manipulability"),
    ),
    "n = 1 000 000, order manipulability, any orientation": (
        0.5, lambda rng: sampled(any_orientation(), 1_000_000, order="manipulability"),
    ),
    "n = 1 000 000, order distance, any orientation": (
        0.5, lambda rng: sampled(any_orientation(), 1_000_000, order="distance", near=np.full(7, 0.1)),
    ),
    "n = 1 000 000 draws, uniform": (0.1, lambda rng: drawn(panda(), 1_000_000)),
    "n = 10 000 draws, any orientation": (
        0.2, lambda rng: drawn(any_orientation(), 10_000),
    ),
    "batch of 100 000 poses": (0.1, lambda rng: batch(rng, 100_000, 1)),
    "batch of 100 000 poses, checked": (
        0.1, lambda rng: batch(rng, 100_000, 4, self_collision=True),
    ),
    "batch of 1000 poses, 20 000 boxes": (
        0.1, lambda rng: batch(rng, 1000, 4, obstacles=boxes(rng, 20_000)),
    ),
    "stream of 100 000 poses": (0.1, stream),
    "service, 20 000 boxes": (0.5, lambda rng: service(rng, 20_000, 0)),
    "service, 20 000 boxes, 10 ms": (0.01, lambda rng: service(rng, 20_000, 0)),
    "service, 10 000 poses, 10 ms": (0.01, service_batch),
    "service, 10 000 poses": (0.3, service_batch),
    "service, cloud of 200 000 points": (0.3, lambda rng: service(rng, 0, 200_000)),
    "service, cloud of 2e6 points, over the limit": (0.3, lambda rng: service(rng, 0, 2_000_000)),
}  # fmt: skip


def run_case(name: str, seed: int) -> dict[str, Any]:
    """Run a case in this process. It must be a new process, because its address space is limited permanently."""
    timeout, prepare = CASES[name]
    call = prepare(np.random.default_rng(seed))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    cpu, began = time.process_time(), time.perf_counter()
    try:
        outcome = told(call(timeout))
    except Exception as error:
        outcome = f"{type(error).__name__}: {error}".replace(f"{tempfile.gettempdir()}/", "")
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    return {"wall": wall, "cpu": cpu, "peak": peak, "outcome": outcome}


def told(answer: Any) -> str:
    """Describe an answer: its error code and the number of rows or poses answered."""
    from eim_ros.ik import ErrorCode, Solutions

    if isinstance(answer, list):
        answer = Solutions.concatenate(answer)
    if isinstance(answer, Solutions) and answer.n_poses > 1:
        n_late = int((answer.error_codes == ErrorCode.TIMED_OUT).sum())
        return f"{answer.n_poses - n_late} poses answered, {n_late} TIMED_OUT"
    n = answer.n if hasattr(answer, "n") else int(np.count_nonzero(answer.valid))
    return f"{ErrorCode(answer.error_code).name}, {n} rows"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", action="append", default=None, choices=list(CASES), metavar="NAME")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=None)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    names = args.case or list(CASES)
    if args.worker:
        print(json.dumps(run_case(names[0], args.seed)))
        return
    lines: list[str] = []

    def tell(line: str) -> None:
        lines.append(line)
        print(line, flush=True)

    tell(f"seed {args.seed}, the quickest of {args.repeats}; {processor()}; load {load_average()}")
    tell(f"{versions(['pin', 'coal', 'numpy'])}; {MEMORY >> 20} MB of address space\n")
    tell(f"{'':54}{'timeout s':>10}{'took s':>9}{'CPU s':>9}{'bound s':>9} within {'peak MB':>8}  outcome")
    n_within = 0
    for name in names:
        runs = []
        for _ in range(args.repeats):
            command = [
                sys.executable,
                "-m",
                "benchmarks.deadlines",
                "--worker",
                "--case",
                name,
                "--seed",
                str(args.seed),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                tell(f"{name}: ended with {done.returncode}: {done.stderr.strip().splitlines()[-1:]}")
                break
            runs.append(json.loads(done.stdout.splitlines()[-1]))
        if not runs:
            continue
        timeout = CASES[name][0]
        best, bound = min(runs, key=lambda run: run["wall"]), (1.0 + SHARE) * timeout + REST
        is_within = best["wall"] <= bound
        n_within += is_within
        tell(
            f"{name:54}{timeout:10.3f}{best['wall']:9.3f}{best['cpu']:9.3f}{bound:9.3f} "
            f"{'yes' if is_within else 'NO':>6} {best['peak']:8.0f}  {best['outcome'][:80]}"
        )
    tell(f"\n{n_within} of {len(names)} within their bounds")
    if args.output is not None:
        args.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
