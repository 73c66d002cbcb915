"""Benefit of a model: time, coverage and number of rows of `sample` with and without models, in Python and ROS 2.

    python -m benchmarks.model_gains [--cases "UR5e" ...] [--poses 12] [--models FOLDER] [--no-service]
        [--output benchmarks/results/model_gains.txt]

For cases without an included model, a model by EIM and a model by EM are trained on 20,000 pairs with the presets of
`eim train` and the settings below. These models are stored in FOLDER and used again. The pairs are the same as from
`eim collect`. For narrow limits and for the shelf, the pairs are uniform configurations within the limits and without
collisions, so these models count as models with a preference.

Each rival answers each pose six times, in random order, and the shortest CPU time counts. A ratio is the time divided
by the time without a model, as a median over poses. The column "cover" is the share of 300 uniform draws from the set
of solutions that are near a row. A draw is near if each joint is within the distance in the heading. The column "rows"
is the number of rows of the answer, divided by n.

- no model: `sample(pose, n)` from uniform seeds, spread over the set if n is at least 16
- model: the same call with the model
- uniform: `diversity=0` without a model, the first solutions found from uniform seeds
- samples: `diversity=0`, samples of the model
- spread: the diversity of "no model", but with seeds from the model; also with seeds from EM

The total variation between the gating and the experts of 20 samples is compared with the total variation for 20
independent draws. Only poses with 20 samples are used.

In the part about the service, two servers for the same robot, with and without the model, answer the same requests in
turn.
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from subprocess import Popen
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

from benchmarks._machine import conditions, isolate, print_table, running
from eim_ros import Box, Robot, Sampler
from eim_ros.core.data_set import DataSet, load_data_set
from eim_ros.ik import Constraints, IKModel, Solutions, Training, collect
from eim_ros.ik.data import pair_data_set
from eim_ros.ik.training import SmoothingConfig
from eim_ros.kinematics import pose_from, pose_from_context, quaternion_from_matrix, share_path
from eim_ros.learning import EIMConfig, EMConfig

FloatArray = npt.NDArray[np.float64]

COUNTS = (1, 20, 100, 300, 1000)
FEWEST_TO_SPREAD, N_REFERENCE, N_USED = 16, 300, 20
N_TRAINING, N_EXPERTS = 20_000, 100
EIM_SETTINGS = {"n_iterations": 40, "m_step.n_samples": 60, "m_step.gating.n_contexts": 200}
REPEATS, TIMEOUT = 6, 10.0
ROUNDS, WARM_UP, READY_WITHIN = 100, 20, 180.0

SLIDE = '<limit lower="-1" upper="1" effort="1" velocity="1"/>'
RAIL = """<link name="rail"/><joint name="rail_y" type="prismatic"><parent link="rail"/><child link="{arm}"/>
<axis xyz="0 1 0"/>{slide}</joint></robot>"""
MOBILE = """<link name="floor"/><link name="along_x"/><link name="along_y"/>
<joint name="base_x" type="prismatic"><parent link="floor"/><child link="along_x"/><axis xyz="1 0 0"/>{slide}</joint>
<joint name="base_y" type="prismatic"><parent link="along_x"/><child link="along_y"/><axis xyz="0 1 0"/>{slide}</joint>
<joint name="base_yaw" type="continuous"><parent link="along_y"/><child link="{arm}"/><axis xyz="0 0 1"/></joint>
</robot>"""
LIKE_SO101 = (  # axis, and position in the frame of the previous joint [m], see examples/short_arms.py
    ("0 0 1", "0 0 0.06"), ("0 1 0", "0.03 0 0.05"), ("0 1 0", "0.03 0 0.11"),
    ("0 1 0", "0.13 0 0"), ("1 0 0", "0.06 0 0"), ("1 0 0", "0.1 0 0"),
)  # fmt: skip


class Case(NamedTuple):
    """An arm and a task. A solution counts as covered if a row is within the distance `near` [rad, m]."""

    robot: Robot
    kind: str = "pose"
    near: float = 0.3
    diversity: float = 1.0  # default of `sample` without a model
    included: str | None = None
    constraints: Constraints | None = None


def on_base(base: str) -> Robot:
    """Return a Panda whose base is moved by further joints."""
    arm = Robot("panda")
    return Robot(arm.urdf.replace("</robot>", base.format(arm=arm.base_link, slide=SLIDE)), tip=arm.tip_link)


def short_arm() -> Robot:
    """Return an arm with five joints like an SO-101."""
    text = '<robot name="like_so101"><link name="l0"/>'
    for i, (axis, xyz) in enumerate(LIKE_SO101):
        kind = "fixed" if i == len(LIKE_SO101) - 1 else "revolute"
        text += f'<link name="l{i + 1}"/><joint name="j{i}" type="{kind}"><parent link="l{i}"/><child link="l{i + 1}"/>'
        text += f'<origin xyz="{xyz}"/><axis xyz="{axis}"/>'
        text += '<limit lower="-1.9" upper="1.9" effort="1" velocity="5"/></joint>'
    return Robot(text + "</robot>")


def quarter(robot: Robot) -> Constraints:
    """Return limits that contain only the middle quarter of the range of each joint."""
    middle, eighth = 0.5 * (robot.lower + robot.upper), 0.125 * (robot.upper - robot.lower)
    ends = zip((middle - eighth).tolist(), (middle + eighth).tolist(), strict=True)
    return Constraints(limits=dict(zip(robot.joint_names, ends, strict=True)))


def cases() -> dict[str, Case]:
    """Return all cases by their names."""
    panda, iiwa = Robot("panda"), Robot("iiwa14")
    on_rail = on_base(RAIL)
    boards = [Box(pose_from((0.6, 0.0, z)), (0.4, 1.0, 0.02)) for z in (0.2, 0.5, 0.8)]
    sides = [Box(pose_from((0.6, y, 0.5)), (0.4, 0.02, 0.62)) for y in (-0.5, 0.0, 0.5)]
    back = Box(pose_from((0.8, 0.0, 0.5)), (0.02, 1.0, 0.62))
    shelf = Constraints(obstacles=[*boards, *sides, back], self_collision=True)
    return {
        "Panda": Case(panda, included="panda_pose"),
        "iiwa": Case(iiwa, included="iiwa14_pose"),
        "Panda, position": Case(panda, "position", 0.5, 0.85, "panda_position"),
        "iiwa, position": Case(iiwa, "position", 0.5, 0.85, "iiwa14_position"),
        "UR5e": Case(Robot("ur5e")),
        "eight joints (Panda on a rail)": Case(on_rail, near=0.5, diversity=0.85),
        "ten joints (Panda on a mobile base)": Case(on_base(MOBILE), near=1.0, diversity=0.85),
        "five joints (like SO-101), position": Case(short_arm(), "position", 0.3, 0.85),
        "Panda, a quarter of each joint's range": Case(panda, constraints=quarter(panda)),
        "eight joints, a quarter of each joint's range": Case(
            on_rail, near=0.3, diversity=0.85, constraints=quarter(on_rail)
        ),
        "Panda before a shelf": Case(panda, constraints=shelf),
    }


def admissible(case: Case, n: int, seed: int) -> FloatArray:
    """Return uniform configurations (n, dof) within the limits that avoid the obstacles."""
    rng, parts, n_found = np.random.default_rng(seed), list[FloatArray](), 0
    if case.constraints is None:
        return case.robot.random(n, rng)
    (lower, upper), scene = case.constraints.bounds(case.robot), case.constraints.scene(case.robot)
    while n_found < n:
        q = rng.uniform(lower, upper, (n, case.robot.dof))
        parts.append(q if scene is None else q[~scene.colliding(q)])
        n_found += len(parts[-1])
    return np.concatenate(parts)[:n]


def pairs(case: Case, seed: int) -> DataSet:
    """Return the training data of a case."""
    if case.constraints is None:
        return collect(case.robot, N_TRAINING, case.kind, seed)
    q = admissible(case, N_TRAINING, seed)
    return pair_data_set(case.robot, q, case.robot.fk(q), case.kind, {"source": "configurations of a cell"})


def trained(name: str, case: Case, folder: Path, seed: int) -> dict[str, IKModel]:
    """Return the models of a case, and train those that are not stored in the folder."""
    eim = EIMConfig.kinematic(n_components=N_EXPERTS).replace(**EIM_SETTINGS)
    trainings = {"em": Training(EMConfig(n_components=N_EXPERTS), seed)}
    if case.included is None:
        trainings["eim"] = Training(eim, seed, smoothing=SmoothingConfig())
    models, data = {}, None
    for label, training in trainings.items():
        file = folder / f"{''.join(c if c.isalnum() else '_' for c in name)}_{label}.safetensors"
        if not file.exists():
            data = pairs(case, seed) if data is None else data
            training.run(data).model.save(file)
        models[label] = IKModel.load(file)
    if case.included is not None:
        models["eim"] = IKModel.load(case.included)
    return models


def total_variations(sampler: Sampler, targets: list[FloatArray], poses: FloatArray, seed: int) -> tuple[float, float]:
    """Return the mean total variations between the gating and the experts of samples, and of independent draws."""
    rng, distances = np.random.default_rng(seed), [[np.nan, np.nan]]
    for target, pose in zip(targets, poses, strict=True):
        weights = np.exp(sampler._prior.conditionals(pose[None])[1][0])
        used = sampler.sample(target, N_USED, diversity=0.0, seed=seed).expert
        if len(used) < N_USED or used.max() >= len(weights):
            continue
        drawn = rng.choice(len(weights), N_USED, p=weights / weights.sum())
        shares = (np.bincount(experts, minlength=len(weights)) / N_USED for experts in (used, drawn))
        distances.append([0.5 * float(np.abs(share - weights).sum()) for share in shares])
    samples, independent = np.nanmean(distances, axis=0) if len(distances) > 1 else distances[0]
    return float(samples), float(independent)


def of_case(name: str, case: Case, folder: Path, n_poses: int, seed: int) -> Iterator[str]:
    """Yield the rows of a case."""
    models = trained(name, case, folder, seed)
    learned, by_em = (Sampler(model=models[label]).with_constraints(case.constraints) for label in ("eim", "em"))
    plain = Sampler(learned.robot).with_constraints(case.constraints)
    poses = case.robot.fk(admissible(case, n_poses, seed + 1))
    targets = [pose[:3, 3] if case.kind == "position" else pose for pose in poses]
    sets = [plain.draw(target, N_REFERENCE, seed=seed, timeout=60.0).q for target in targets]
    rivals: dict[str, Callable[[FloatArray, int, int], Solutions]] = {
        "no model": lambda target, n, number: plain.sample(target, n, seed=number, timeout=TIMEOUT),
        "model": lambda target, n, number: learned.sample(target, n, seed=number, timeout=TIMEOUT),
        "uniform": lambda target, n, number: plain.sample(target, n, diversity=0.0, seed=number, timeout=TIMEOUT),
        "samples": lambda target, n, number: learned.sample(target, n, diversity=0.0, seed=number, timeout=TIMEOUT),
    }
    for label, sampler in (("spread", learned), ("spread, EM", by_em)):

        def spread(target: FloatArray, n: int, number: int, sampler: Sampler = sampler) -> Solutions:
            diversity = case.diversity if n >= FEWEST_TO_SPREAD else 0.0
            return sampler.sample(target, n, diversity=diversity, seed=number, timeout=TIMEOUT)

        rivals[label] = spread
    about = "preferred" if learned.has_preference else "no preference"
    origin = case.included or f"trained, {N_EXPERTS} experts"
    yield f"\n{name}: {case.robot.dof} joints, {case.kind}, within {case.near} rad; {origin}, {about}"
    yield heading(rivals)
    for n in COUNTS:
        yield row(n, rivals, targets, sets, case.near)
    used, drawn = total_variations(learned, targets, poses, seed)
    if np.isfinite(used):
        yield f"used experts: total variation from the gating {used:.3f}, of independent draws {drawn:.3f}"


def heading(rivals: Iterable[str]) -> str:
    """Return the heading of a table."""
    columns = (label + (": ms" if label == "no model" else ": ratio") for label in rivals)
    return f"{'n':>5}" + "".join(f"{column:>18} cover   rows" for column in columns)


def row(
    n: int,
    rivals: dict[str, Callable[[FloatArray, int, int], Solutions]],
    targets: list[FloatArray],
    sets: list[FloatArray],
    near: float,
) -> str:
    """Measure all rivals for one number of solutions."""
    times = {label: np.full(len(targets), np.inf) for label in rivals}
    rng = np.random.default_rng(n)
    covered, rows = ({label: np.zeros(len(targets)) for label in rivals} for _ in range(2))
    for number, target in enumerate(targets):
        for repeat in range(REPEATS):
            for label in rng.permutation(list(rivals)).tolist():
                began = time.thread_time()
                found = rivals[label](target, n, number)
                times[label][number] = min(times[label][number], time.thread_time() - began)
                if not repeat:
                    rows[label][number] = len(found) / n
                    if found:
                        away = cKDTree(found.q).query(sets[number], p=np.inf, distance_upper_bound=near)[0]
                        covered[label][number] = np.isfinite(away).mean()
    reference = times["no model"]
    cells = []
    for label in rivals:
        value = 1e3 * np.median(reference) if label == "no model" else np.median(times[label] / reference)
        shown = f"{value:18.3f}" if label == "no model" else f"{value:18.2f}"
        cells.append(f"{shown}{covered[label].mean():6.2f}{rows[label].mean():7.2f}")
    return f"{n:5}" + "".join(cells)


def of_preference(n_poses: int) -> Iterator[str]:
    """Yield the times of a model of demonstrations at the poses of its demonstrations."""
    learned = Sampler.load("panda_table")
    plain = Sampler(learned.robot)
    poses = pose_from_context(load_data_set(share_path("config/demonstrations/panda_table.npz")).context)
    poses = poses[:: max(1, len(poses) // n_poses)][:n_poses]
    rivals: dict[str, Callable[[FloatArray, int, int], Solutions]] = {
        "no model": lambda pose, n, number: plain.sample(pose, n, seed=number),
        "model": lambda pose, n, number: learned.sample(pose, n, seed=number),
    }
    yield "\npanda_table: poses of its demonstrations; covered: all solutions, which are not its aim"
    yield heading(rivals)
    sets = [plain.draw(pose, N_REFERENCE, seed=0).q for pose in poses]
    for n in COUNTS:
        yield row(n, rivals, list(poses), sets, 0.3)


def cpu_seconds(process: Popen[bytes]) -> float:
    """Return the CPU time of all threads of a process [s]."""
    tasks = Path(f"/proc/{process.pid}/task").glob("*/schedstat")
    return 1e-9 * sum(int(task.read_text(encoding="ascii").split()[0]) for task in tasks)


def of_service(name: str, robot: Robot, seed: int) -> Iterator[str]:
    """Yield the round trips to servers with and without a model, and the CPU times of the servers."""
    import rclpy
    from geometry_msgs.msg import Pose

    from eim_ros.nodes import SERVICE_QOS, wait_until_active
    from eim_ros.srv import SampleIK

    isolate()
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "SUBNET"  # the default
    command = [sys.executable, "-m", "eim_ros.nodes", "ik_server", "--ros-args", "-r"]
    with (
        running([*command, "__node:=plain", "-p", "model:=none", "-p", f"robot:={robot.name}"]) as plain,
        running([*command, "__node:=learned", "-p", f"model:={name}"]) as learned,
    ):
        rclpy.init()
        node, executor = rclpy.create_node("model_gains"), rclpy.executors.SingleThreadedExecutor()
        executor.add_node(node)
        clients = []
        for server in ("plain", "learned"):
            wait_until_active(node, f"/{server}", READY_WITHIN, executor=executor)
            clients.append(node.create_client(SampleIK, f"/{server}/sample_ik", qos_profile=SERVICE_QOS))
            clients[-1].wait_for_service(READY_WITHIN)

        def answered(n: int, indices: range) -> tuple[FloatArray, float]:
            """Return round trips (n_requests, 2) [s], without and with the model, and the share of solved requests."""
            trips, n_solved = np.empty((len(indices), 2)), 0
            for position, index in enumerate(indices):
                request: Any = SampleIK.Request(n_samples=n, seed=seed + index, timeout=5.0, poses=[Pose()])
                p, r = request.poses[0].position, request.poses[0].orientation
                p.x, p.y, p.z = poses[index, :3, 3].tolist()
                r.x, r.y, r.z, r.w = quaternion_from_matrix(poses[index]).tolist()
                for which in (index % 2, 1 - index % 2):
                    began = time.perf_counter()
                    future = clients[which].call_async(request)
                    executor.spin_until_future_complete(future, 60.0)
                    trips[position, which] = time.perf_counter() - began
                    n_solved += future.result().solutions.n > 0
            return trips, n_solved / trips.size

        yield f"\nservice, {name}: {ROUNDS} requests of each kind; CPU times of the servers"
        yield f"{'n':>5}{'no model: CPU ms':>18}{'model: ratio':>14}{'shortest trip: ratio':>22}{'solved':>8}"
        poses = robot.fk(robot.random(ROUNDS + WARM_UP, np.random.default_rng(seed)))
        for n in COUNTS:
            answered(n, range(WARM_UP))
            before = cpu_seconds(plain), cpu_seconds(learned)
            trips, share = answered(n, range(WARM_UP, len(poses)))
            taken = np.subtract((cpu_seconds(plain), cpu_seconds(learned)), before)
            ratio = trips[:, 1].min() / trips[:, 0].min()
            yield f"{n:5}{1e3 * taken[0] / ROUNDS:18.3f}{taken[1] / taken[0]:14.2f}{ratio:22.2f}{share:8.2f}"
        rclpy.shutdown()


def report(chosen: list[str], folder: Path, n_poses: int, seed: int, with_service: bool) -> Iterator[str]:
    """Yield all tables."""
    known = cases()
    for name in chosen or known:
        yield from of_case(name, known[name], folder, n_poses, seed)
    if not chosen:
        yield from of_preference(n_poses)
    if with_service:
        for name in ("iiwa14_pose", "panda_pose"):
            yield from of_service(name, IKModel.load(name).robot, seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="*", default=[], help="cases to measure (default: all)")
    parser.add_argument("--poses", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--models", type=Path, help="folder of trained models; missing models are trained and stored there"
    )
    parser.add_argument("--no-service", action="store_true")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    head = [f"What a model buys: {given.poses} poses, seed {given.seed}", conditions(["numpy", "torch"])]
    with TemporaryDirectory() as temporary:
        folder = given.models or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        print_table(head, report(given.cases, folder, given.poses, given.seed, not given.no_service), given.output)


if __name__ == "__main__":
    main()
