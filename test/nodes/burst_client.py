"""A client as most are: default quality of service, in a process of its own; asks all at once and only then reads.

    python burst_client.py N_REQUESTS

prints how many answers of each error code came.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter

import rclpy
from nodes.client_node import request
from rclpy.executors import SingleThreadedExecutor

from eim_ros.srv import SampleIK

LONGEST_SILENCE = 10.0  # [s] after which what has not come is lost


def main(n_requests: int) -> None:
    rclpy.init()
    node = rclpy.create_node("burst_client")
    client = node.create_client(SampleIK, "/ik_server/sample_ik")
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    if not client.wait_for_service(60.0):
        raise SystemExit("the service did not appear")
    messages = [request(n_samples=100, timeout=30.0) for _ in range(n_requests)]
    futures = [client.call_async(message) for message in messages]
    n_done, last = 0, time.monotonic()
    while n_done < n_requests and time.monotonic() < last + LONGEST_SILENCE:
        executor.spin_once(0.1)
        n_before, n_done = n_done, sum(future.done() for future in futures)
        last = time.monotonic() if n_done > n_before else last
    sys.stdout.write(json.dumps(Counter(str(future.result().error_code) for future in futures if future.done())) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
