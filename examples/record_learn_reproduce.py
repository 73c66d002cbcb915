"""Record, learn and reproduce demonstrations: a hand passes a post on either side on the way to a variable goal.

The bags are ordinary rosbag2 bags. Here, a program moves the arm; on a robot, `demo_recorder` or `ros2 bag record`
makes them. The average of both ways would pass through the post. EM with two components keeps both ways, about as often
as demonstrated. EIM avoids motions that were not demonstrated, and may keep only one way; see
`docs/how_to/choose_a_learner.md`.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from eim_ros import Robot, Sampler
from eim_ros.bags.importing import MotionForm, import_motions
from eim_ros.bags.selection import Selection
from eim_ros.kinematics import pose_from
from eim_ros.learning import EIMConfig, EMConfig
from eim_ros.motion import MotionTraining

DOWNWARD = [1.0, 0.0, 0.0, 0.0]
POST = np.array([0.5, 0.0])  # x, y [m]
DETOUR = 0.2  # [m]
START = np.array([0.0, -0.4, 0.0, -2.2, 0.0, 1.8, 0.8])  # motions begin near this configuration [rad]
TYPES = get_typestore(Stores.ROS2_KILTED)


def demonstration(rng: np.random.Generator, sampler: Sampler) -> tuple[float, np.ndarray]:
    """Return a goal's y [m] and configurations (40, 7) of a motion to it that passes the post on a random side."""
    goal, side = rng.uniform(0.25, 0.4), rng.choice([-1.0, 1.0])
    phase = np.linspace(0.0, 1.0, 40)
    x = POST[0] + side * DETOUR * rng.normal(1.0, 0.05) * np.sin(np.pi * phase)
    y = -0.3 + (goal + 0.3) * phase
    poses = [pose_from([*place, 0.3], DOWNWARD) for place in zip(x, y, strict=True)]
    begin = sampler.solve(poses[0], near=START, seed=0)[0]
    path = sampler.follow(np.array(poses), near=begin, seed=0, n_candidates=8, max_step=0.5)
    assert path, path.message
    return goal, path.q


def record(folder: Path, robot: Robot, motions: list[tuple[float, np.ndarray]]) -> None:
    """Write one bag at 20 Hz, with the goal of each motion and a label at its start."""
    types, seconds = TYPES.types, 1_700_000_000.0
    with Writer(folder, version=9, storage_plugin=StoragePlugin.MCAP) as bag:
        topics = {"/joint_states": "sensor_msgs/msg/JointState", "/goal": "std_msgs/msg/Float64MultiArray"}
        topics["/demo_recorder/segment"] = "std_msgs/msg/String"
        channels = {name: bag.add_connection(name, kind, typestore=TYPES) for name, kind in topics.items()}

        def write(topic: str, **fields: object) -> None:
            message = TYPES.serialize_cdr(types[topics[topic]](**fields), topics[topic])
            bag.write(channels[topic], round(seconds * 1e9), message)

        for number, (goal, positions) in enumerate(motions):
            write("/demo_recorder/segment", data=f"reach {number}")
            write("/goal", layout=types["std_msgs/msg/MultiArrayLayout"](dim=[], data_offset=0), data=np.array([goal]))
            for q in positions:
                seconds += 0.05
                stamp = types["builtin_interfaces/msg/Time"](int(seconds), int(seconds % 1.0 * 1e9))
                header, none = types["std_msgs/msg/Header"](stamp, ""), np.zeros(0)
                names = list(robot.joint_names)
                write("/joint_states", header=header, name=names, position=q, velocity=none, effort=none)
            seconds += 0.05


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--demonstrations", type=int, default=100)
parser.add_argument("--iterations", type=int, default=50)
arguments = parser.parse_args()
rng, robot = np.random.default_rng(0), Robot("panda")
sampler = Sampler(robot)
with tempfile.TemporaryDirectory() as folder:
    record(Path(folder, "bag"), robot, [demonstration(rng, sampler) for _ in range(arguments.demonstrations)])
    form = MotionForm(contexts=("/goal",))
    data_set, _ = import_motions([Path(folder, "bag")], Selection(robot=robot), form)
print(f"recorded and imported {len(data_set)} motions")

learners = {
    "EM": EMConfig(n_components=2),
    "EIM": EIMConfig(n_components=2, n_iterations=arguments.iterations),
}
for name, config in learners.items():
    prior = MotionTraining(learner=config, seed=0).run(data_set).model
    motions = prior.condition([0.35]).sample(100, torch.Generator().manual_seed(0))  # a goal that was not demonstrated
    tips = robot.fk(motions.positions.reshape(-1, robot.dof))[:, :3, 3].reshape(100, -1, 3)
    nearest = np.linalg.norm(tips[:, :, :2] - POST, axis=2).min(axis=1)
    in_front = tips[np.arange(100), np.abs(tips[:, :, 1]).argmin(axis=1), 0] < POST[0]
    print(
        f"{name}: {in_front.sum()} of 100 new motions pass in front, the others behind; the nearest by "
        f"{nearest.min():.2f} m; they end {np.abs(tips[:, -1, 1] - 0.35).mean():.3f} m from the goal, on average"
    )
