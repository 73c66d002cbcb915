"""Calls to a server under test: every wait ends, and every failure shows the server's log."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import rclpy
from geometry_msgs.msg import Point, Pose
from lifecycle_msgs.srv import ChangeState, GetState
from nodes.server_process import PATIENCE, ServerProcess
from rclpy.executors import SingleThreadedExecutor

from eim_ros.ik import Solutions
from eim_ros.msg import IKConstraints, IKSolutions
from eim_ros.nodes import SERVICE_QOS
from eim_ros.srv import DrawIK, FollowIK, SampleIK, SolveAllIK

NODE = "/ik_server"
FRAME = "base_link"
IK_SERVICES = (SampleIK, SolveAllIK, DrawIK, FollowIK)
CONSTRAINT_FIELDS = frozenset(IKConstraints.get_fields_and_field_types())


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
            qos = {"qos_profile": SERVICE_QOS} if service_type in IK_SERVICES else {}
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

    def sample(self, server: ServerProcess, request: SampleIK.Request, namespace: str = "") -> IKSolutions:
        return self.call(server, SampleIK, f"{namespace}{NODE}/sample_ik", request).solutions

    def change_state(self, server: ServerProcess, label: str, node: str = NODE) -> bool:
        request = ChangeState.Request()
        request.transition.label = label
        return self.call(server, ChangeState, f"{node}/change_state", request, PATIENCE).success

    def state(self, server: ServerProcess, node: str = NODE) -> str:
        return self.call(server, GetState, f"{node}/get_state", GetState.Request()).current_state.label


def request(position: tuple[float, float, float] = (0.4, 0.1, 0.6), service_type: Any = SampleIK, **fields: Any) -> Any:
    """A good request for one position; `fields` replace its fields, or those of its constraints."""
    result = service_type.Request(seed=0)
    if hasattr(result, "n_samples"):
        result.n_samples = 10
    result.header.frame_id = FRAME
    result.poses = [Pose(position=Point(**dict(zip("xyz", map(float, position), strict=True))))]
    for name, value in {"position_only": True, **fields}.items():
        owner = result.constraints if name in CONSTRAINT_FIELDS else result
        setattr(owner, name, value)
    return result


def joint_positions(answer: IKSolutions) -> np.ndarray:
    """Configurations (n, dof) of an answer."""
    return Solutions.from_message(answer).q
