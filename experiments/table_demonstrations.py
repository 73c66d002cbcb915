"""Demonstrations of a Panda that reaches over a table, with its elbow to the left or to the right of a post.

    python -m experiments.table_demonstrations FOLDER [--motions 250] [--seed 0]

The scripted demonstrator moves the hand, which points down, along short lines behind the post. For each line, it
chooses a side of the post at random. The demonstrator keeps the elbow up and avoids collisions. The joint states are
published on `/joint_states`. The node `demo_recorder` records them into the bag FOLDER/panda_table, with the side as
the label of each segment. The next steps are in config/demonstrations/README.md.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Rotation

from eim_ros import Box, Cylinder, Robot, Sampler
from eim_ros.kinematics import pose_from

FloatArray = npt.NDArray[np.float64]

ROBOT = Robot("panda")
TABLE = Box(pose_from([0.65, 0.0, -0.035]), [0.9, 1.4, 0.05], name="table")
POST = Cylinder(pose_from([0.27, 0.0, 0.45]), radius=0.04, length=0.9, name="post")
OBSTACLES = (TABLE, POST)
CLEARANCE = 0.01  # [m]; smallest distance between the demonstrator and obstacles
NEAREST, FARTHEST = (0.48, -0.15, 0.15), (0.62, 0.15, 0.4)  # corners of the box that contains the ends of all lines [m]
LONGEST = 0.1  # largest extent of a line along each axis [m]
N_POINTS = 8  # number of joint states of a motion
PERIOD = 0.02  # time between two joint states [s]
# swivel angle of the elbow [rad]: mean, standard deviation between motions and within a motion
ELBOW, SPREAD, SLACK = 1.0, 0.15, 0.1


def swivel(q: FloatArray) -> FloatArray:
    """Return the angle (n,) of the elbow about the line from shoulder to wrist [rad]: 0 is up, right is positive.

    Parameters
    ----------
    q : (n, 7)
    """
    shoulder, elbow, wrist = np.moveaxis(ROBOT.skeleton(q)[:, [2, 4, 5]], 1, 0)
    line = (wrist - shoulder) / np.linalg.norm(wrist - shoulder, axis=1, keepdims=True)
    up = np.array([0.0, 0.0, 1.0]) - line[:, 2:] * line
    out = elbow - shoulder
    return np.asarray(np.arctan2((out * np.cross(line, up)).sum(axis=1), (out * up).sum(axis=1)))


def line_of_poses(rng: np.random.Generator) -> FloatArray:
    """Return poses (N_POINTS, 4, 4) of the flange on a random line, with the hand pointing roughly down."""
    begin, end = rng.uniform(NEAREST, FARTHEST, (2, 3))
    turn = Rotation.from_euler("z", rng.normal(0.0, 0.2)) * Rotation.from_euler("xy", rng.normal(0.0, 0.08, 2))
    poses = np.tile(np.eye(4), (N_POINTS, 1, 1))
    poses[:, :3, :3] = (turn * Rotation.from_quat([1.0, 0.0, 0.0, 0.0])).as_matrix()
    poses[:, :3, 3] = begin + np.linspace(0.0, 1.0, N_POINTS)[:, None] * np.clip(end - begin, -LONGEST, LONGEST)
    return poses


def demonstrator() -> Sampler:
    """Return the sampler of configurations that do not touch the table and the post."""
    return Sampler(ROBOT).with_constraints(obstacles=OBSTACLES, self_collision=True, clearance=CLEARANCE)


def reach(sampler: Sampler, pose: FloatArray, rng: np.random.Generator) -> FloatArray | None:
    """Draw a configuration (7,) for a pose on a random side of the post, or None if the arm does not fit there."""
    angle = rng.choice([-1.0, 1.0]) * rng.normal(ELBOW, SPREAD)

    def cost(q: FloatArray) -> FloatArray:
        leans_forward = (q[:, 1] > 0.0) & (np.abs(q[:, [0, 2]]).max(axis=1) < 1.6)
        return np.where(leans_forward, 0.5 * ((swivel(q) - angle) / SLACK) ** 2, np.inf)

    drawn = sampler.draw(pose, 1, cost, seed=int(rng.integers(2**31)), timeout=10.0)
    return drawn.q[0] if drawn and abs(swivel(drawn.q)[0] - angle) < 4.0 * SLACK else None


def demonstrations(n: int, seed: int) -> Iterator[FloatArray]:
    """Generate n motions (N_POINTS, 7) [rad]. Lines that the arm cannot follow are replaced."""
    rng, sampler, made = np.random.default_rng(seed), demonstrator(), 0
    while made < n:
        poses = line_of_poses(rng)
        begin = reach(sampler, poses[0], rng)
        if begin is None:
            continue
        path = sampler.follow(poses, near=begin, max_step=0.2, objective=None, seed=0, timeout=10.0)
        if path:
            made += 1
            yield path.q


def record(motions: list[FloatArray], folder: Path) -> None:
    """Publish motions as joint states. `demo_recorder` writes them into the bag panda_table in a folder."""
    import rclpy  # imported here, because the scene is also useful without ROS
    from sensor_msgs.msg import JointState
    from std_srvs.srv import Trigger

    from eim_ros.cli.processes import ServerProcess, in_own_domain
    from eim_ros.nodes import SERVICE_QOS, wait_until_active
    from eim_ros.srv import LabelRecording, StartRecording

    folder.mkdir(parents=True, exist_ok=True)
    settings = {"data_directory": str(folder.resolve())}
    with in_own_domain() as domain_id, ServerProcess(settings, domain_id, folder, "demo_recorder"):
        rclpy.init()
        node = rclpy.create_node("arm")
        wait_until_active(node, "/demo_recorder", wait=60.0)
        joints = node.create_publisher(JointState, "/joint_states", 1000)

        def call(kind: Any, name: str, request: Any) -> None:
            client = node.create_client(kind, f"/demo_recorder/{name}", qos_profile=SERVICE_QOS)
            client.wait_for_service()
            future = client.call_async(request)
            rclpy.spin_until_future_complete(node, future)
            print(name, getattr(request, "label", ""), future.result().message)

        call(StartRecording, "start", StartRecording.Request(path="panda_table", topics=["/joint_states"]))
        while not joints.get_subscription_count():
            time.sleep(PERIOD)
        for motion in motions:
            call(LabelRecording, "label", LabelRecording.Request(label="right" if swivel(motion)[0] > 0 else "left"))
            for q in motion:
                message = JointState(name=list(ROBOT.joint_names), position=q.tolist())
                message.header.stamp = node.get_clock().now().to_msg()
                joints.publish(message)
                time.sleep(PERIOD)
        call(Trigger, "stop", Trigger.Request())
        rclpy.shutdown()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--motions", type=int, default=250)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    record(list(demonstrations(args.motions, args.seed)), args.folder)
