"""Calls to a server under test. Every wait has a timeout, and every failure shows the server's log."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import Point, Pose
from lifecycle_msgs.srv import ChangeState, GetState
from nodes.server_process import PATIENCE, LoggedProcess, ServerProcess
from rcl_interfaces.srv import GetParameters, SetParameters
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter, parameter_value_to_python
from rclpy.task import Future
from std_srvs.srv import Trigger

from eim_ros.ik import Solutions
from eim_ros.msg import IKConstraints, IKSolutions
from eim_ros.nodes import SERVICE_QOS
from eim_ros.srv import DrawIK, FollowIK, SampleIK, SolveAllIK

NODE = "/ik_server"
FRAME = "base_link"
IK_SERVICES = (SampleIK, SolveAllIK, DrawIK, FollowIK)
CONSTRAINT_FIELDS = frozenset(IKConstraints.get_fields_and_field_types())


class ClientNode:
    """Node that creates one client per service."""

    def __init__(self, name: str) -> None:
        self.waits_for_start = True  # if False, servers with autostart are called even before they are active
        self.node = rclpy.create_node(name)
        self.executor = SingleThreadedExecutor()
        self.executor.add_node(self.node)
        self._clients: dict[str, Any] = {}

    def destroy(self) -> None:
        self.executor.shutdown()
        self.node.destroy_node()

    def client(self, server: ServerProcess, service_type: Any, name: str) -> Any:
        """Return a client whose service exists and whose node has started."""
        if self.waits_for_start:
            server.wait_until_ready()
        if name not in self._clients:
            qos = {"qos_profile": SERVICE_QOS} if service_type in IK_SERVICES else {}
            self._clients[name] = self.node.create_client(service_type, name, **qos)
        client = self._clients[name]
        end = time.monotonic() + PATIENCE
        while not client.service_is_ready():  # rclpy's wait polls only four times per second
            assert server.is_running, f"the server ended:\n{server.log}"
            assert time.monotonic() < end, f"{name} did not appear; log of the server:\n{server.log}"
            time.sleep(0.005)
        return client

    def call(self, server: ServerProcess, service_type: Any, name: str, request: Any, timeout: float = 30.0) -> Any:
        """Return the response. If a service with the default QoS of rclpy does not answer, the request is repeated.

        With this QoS, rclpy lost 7 of 19,784 responses of a plain node (part `default_qos` of
        `benchmarks.service_load`). Without a second request, a run of all tests would sometimes fail.
        """
        client = self.client(server, service_type, name)
        attempts = 1 if service_type in IK_SERVICES else 2
        for _ in range(attempts):
            future = client.call_async(request)
            self.executor.spin_until_future_complete(future, timeout / attempts)
            if future.done():
                break
        assert future.done(), f"{name} did not answer within {timeout} s; log of the server:\n{server.log}"
        return future.result()

    def results(self, futures: list[Future], timeout: float = 60.0) -> list[Any]:
        """Return the responses to running calls. All responses must arrive within `timeout` [s]."""
        end = time.monotonic() + timeout
        for future in futures:
            self.executor.spin_until_future_complete(future, max(0.0, end - time.monotonic()))
        assert all(future.done() for future in futures), f"{sum(not future.done() for future in futures)} got no answer"
        return [future.result() for future in futures]

    def hear(
        self, server: LoggedProcess, condition: Callable[[], object], what: str, timeout: float = PATIENCE
    ) -> None:
        """Spin until the condition is true, without a pause because hundreds of messages may arrive per second."""
        end = time.monotonic() + timeout
        while not condition():
            assert server.is_running, f"the node ended:\n{server.log}"
            assert time.monotonic() < end, f"no {what} within {timeout} s; log of the node:\n{server.log}"
            self.executor.spin_once(0.05)

    def next_message(
        self, server: ServerProcess, kind: type, topic: str, wanted: Callable[[Any], bool], what: str
    ) -> Any:
        """Return the next message of a topic that meets a condition."""
        found: list[Any] = []

        def keep(message: Any) -> None:
            if wanted(message):
                found.append(message)

        subscription = self.node.create_subscription(kind, topic, keep, 10)
        self.hear(server, lambda: found, what)
        self.node.destroy_subscription(subscription)
        return found[0]

    def diagnosis(self, server: ServerProcess, wanted: str) -> DiagnosticStatus:
        """Return the next diagnostic status with this message."""

        def found(message: DiagnosticArray) -> list[DiagnosticStatus]:
            return [status for status in message.status if status.message == wanted]

        what = f"diagnostics {wanted!r}"
        told = self.next_message(server, DiagnosticArray, "/diagnostics", lambda message: bool(found(message)), what)
        return found(told)[-1]

    def trigger(self, server: ServerProcess, service: str) -> Trigger.Response:
        return self.call(server, Trigger, service, Trigger.Request())

    def parameters(self, server: ServerProcess, node: str, *names: str) -> list[Any]:
        answer = self.call(server, GetParameters, f"{node}/get_parameters", GetParameters.Request(names=list(names)))
        return [parameter_value_to_python(value) for value in answer.values]

    def set_parameters(self, server: ServerProcess, node: str, **values: Any) -> dict[str, str]:
        """Set parameters. Return the reason for each rejected parameter, by name."""
        parameters = [Parameter(name, value=value).to_parameter_msg() for name, value in values.items()]
        request = SetParameters.Request(parameters=parameters)
        results = self.call(server, SetParameters, f"{node}/set_parameters", request).results
        return {name: each.reason for name, each in zip(values, results, strict=True) if not each.successful}

    def sample(self, server: ServerProcess, request: SampleIK.Request, namespace: str = "") -> IKSolutions:
        return self.call(server, SampleIK, f"{namespace}{NODE}/sample_ik", request).solutions

    def change_state(self, server: ServerProcess, label: str, node: str = NODE) -> bool:
        request = ChangeState.Request()
        request.transition.label = label
        return self.call(server, ChangeState, f"{node}/change_state", request, PATIENCE).success

    def state(self, server: ServerProcess, node: str = NODE) -> str:
        return self.call(server, GetState, f"{node}/get_state", GetState.Request()).current_state.label


def request(position: tuple[float, float, float] = (0.4, 0.1, 0.6), service_type: Any = SampleIK, **fields: Any) -> Any:
    """Return a valid request for one position. `fields` replace fields of the request or of its constraints."""
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
    """Return the configurations (n, dof) of an answer."""
    return Solutions.from_message(answer).q
