"""Check whether two processes on this host can communicate over ROS 2.

    python -m eim_ros.nodes.common.dds_check

The program listens on a separate topic and starts a second process that publishes there. Both use the domain and the
settings of the environment. The output is one JSON object with the name of the middleware, whether a message was
received, and the time since the second process was started [s].
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import rclpy
from rclpy.executors import SingleThreadedExecutor
from std_msgs.msg import String

from eim_ros.core.child_process import tied

PATIENCE, PERIOD = 10.0, 0.05  # [s]


def check() -> dict[str, object]:
    """Start a talker process, listen to it, and return the result."""
    topic = f"/eim_doctor_{os.getpid()}"
    rclpy.init()
    heard: list[str] = []
    node = rclpy.create_node(f"eim_doctor_{os.getpid()}")
    node.create_subscription(String, topic, lambda message: heard.append(message.data), 10)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    command = [sys.executable, "-m", __spec__.name if __spec__ else "eim_ros.nodes.common.dds_check", topic]
    began = time.monotonic()
    with subprocess.Popen(tied(command)) as talker:
        try:
            while not heard and time.monotonic() - began < PATIENCE and talker.poll() is None:
                executor.spin_once(PERIOD)
        finally:
            talker.kill()
    took = time.monotonic() - began
    executor.shutdown()
    node.destroy_node()
    rclpy.shutdown()
    return {"middleware": rclpy.get_rmw_implementation_identifier(), "heard": bool(heard), "seconds": round(took, 3)}


def talk(topic: str) -> None:
    """Publish repeatedly on a topic. The listener normally kills this process before the time limit."""
    rclpy.init()
    node = rclpy.create_node(f"eim_doctor_{os.getpid()}")
    publisher = node.create_publisher(String, topic, 10)
    end = time.monotonic() + 2.0 * PATIENCE
    while time.monotonic() < end:
        publisher.publish(String(data="here"))
        time.sleep(PERIOD)


if __name__ == "__main__":
    if sys.argv[1:]:
        talk(sys.argv[1])
    else:
        sys.stdout.write(json.dumps(check()) + "\n")
