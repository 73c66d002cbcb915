"""Calls to a server under test: every wait ends, and every failure shows the server's log."""

from __future__ import annotations

import time
from typing import Any

import rclpy
from lifecycle_msgs.srv import ChangeState, GetState
from nodes.server_process import PATIENCE, ServerProcess
from rclpy.executors import SingleThreadedExecutor

from eim_ros.nodes import SERVICE_QOS
from eim_ros.srv import SampleIK

NODE = "/ik_server"
FRAME = "base_link"


class ClientNode:
    """Clients are made once per service.

    Attributes
    ----------
    waits_for_start : bool
        Whether a server that starts itself is to be active before it is called (default), or may be called before.
    """

    def __init__(self, name: str) -> None:
        self.waits_for_start = True
        self.node = rclpy.create_node(name)
        self.executor = SingleThreadedExecutor()
        self.executor.add_node(self.node)
        self._clients: dict[str, Any] = {}

    def destroy(self) -> None:
        self.executor.shutdown()
        self.node.destroy_node()

    def client(self, server: ServerProcess, service_type: Any, name: str) -> Any:
        """A client whose service is there, and whose node has started."""
        if self.waits_for_start:
            server.wait_until_ready()
        if name not in self._clients:
            qos = {"qos_profile": SERVICE_QOS} if service_type is SampleIK else {}
            self._clients[name] = self.node.create_client(service_type, name, **qos)
        client = self._clients[name]
        end = time.monotonic() + PATIENCE
        while not client.service_is_ready():  # rclpy's own wait looks every quarter of a second
            assert server.is_running, f"the server ended:\n{server.log}"
            assert time.monotonic() < end, f"{name} did not appear; log of the server:\n{server.log}"
            time.sleep(0.005)
        return client

    def call(self, server: ServerProcess, service_type: Any, name: str, request: Any, timeout: float = 30.0) -> Any:
        future = self.client(server, service_type, name).call_async(request)
        self.executor.spin_until_future_complete(future, timeout)
        assert future.done(), f"{name} did not answer within {timeout} s; log of the server:\n{server.log}"
        return future.result()

    def sample(self, server: ServerProcess, request: SampleIK.Request, namespace: str = "") -> SampleIK.Response:
        return self.call(server, SampleIK, f"{namespace}{NODE}/sample_ik", request)

    def change_state(self, server: ServerProcess, label: str, node: str = NODE) -> bool:
        request = ChangeState.Request()
        request.transition.label = label
        return self.call(server, ChangeState, f"{node}/change_state", request, PATIENCE).success

    def state(self, server: ServerProcess, node: str = NODE) -> str:
        return self.call(server, GetState, f"{node}/get_state", GetState.Request()).current_state.label


def request(position: tuple[float, float, float] = (0.4, 0.1, 0.6), **fields: Any) -> SampleIK.Request:
    """A good request: 10 refined positions; `fields` replace its fields."""
    result = SampleIK.Request(n_samples=10, random_seed=0, position_only=True, refine=True)
    result.pose.header.frame_id = FRAME
    point = result.pose.pose.position
    point.x, point.y, point.z = map(float, position)
    for name, value in fields.items():
        setattr(result, name, value)
    return result
