"""Client of the services of `ik_server` for programs that are not nodes, such as `eim sample --service`.

    with IKClient(SampleIK, "/ik_server/sample_ik", wait=5.0) as client:
        response = client.call(SampleIK.Request(...), timeout=3.0)
        solutions = solutions_of(response)

In a node, use a `RetryingClient`, or an ordinary client of a type in `eim_ros.srv` with `SERVICE_QOS`.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

from lifecycle_msgs.srv import GetState
from rcl_interfaces.srv import GetParameters
from rclpy.parameter import parameter_value_to_python

from eim_ros.core.errors import ServiceError
from eim_ros.ik import Solutions
from eim_ros.nodes.common.client import ClientNode, Watch, ignore, wait_until_active
from eim_ros.nodes.common.qos import SERVICE_QOS

_ANSWERED_WITHIN = 10.0  # [s]
_GRACE = 1.0  # maximum time to discover all services of a node [s]


class IKClient(ClientNode):
    """Client in a short-lived node with its own context. Use it as a context manager.

    The constructor raises `ServiceError` if the service does not appear in time, or if its node does not become active.

    Parameters
    ----------
    service_type : type
        Type of the service, such as `eim_ros.srv.SampleIK`.
    service : str
        Full name of the service.
    wait : float
        Maximum time to wait until the service appears and its node is active [s]; may be infinite.
    watch : callable
        Function that is called repeatedly during the wait; see `Watch`. An exception from this function ends the wait.
    """

    def __init__(self, service_type: Any, service: str, wait: float = 5.0, watch: Watch = ignore) -> None:
        super().__init__("eim_request")
        self._server = service.rpartition("/")[0]
        self._wait = wait
        try:
            self._states = self._node.create_client(GetState, f"{self._server}/get_state")
            self._client = self._node.create_client(service_type, service, qos_profile=SERVICE_QOS)
            self._wait_until_active(watch)
        except BaseException:
            self.close()
            raise

    def call(self, request: Any, timeout: float = _ANSWERED_WITHIN) -> Any:
        """Return the response to a request. `timeout` is the maximum wall time until the response [s].

        `ServiceError` is raised if no response arrives in time.
        """
        return self._answer(self._client, request, timeout)

    def joint_names(self) -> list[str]:
        """Return the joint names of the server's robot from a parameter of the server."""
        client = self._node.create_client(GetParameters, f"{self._server}/get_parameters")
        self._wait_for(client, _ANSWERED_WITHIN)
        request = GetParameters.Request(names=["chain.joint_names"])
        values = [parameter_value_to_python(value) for value in self._answer(client, request, _ANSWERED_WITHIN).values]
        if len(values) != 1 or None in values:
            raise ServiceError(f"{self._server} has no joint names yet: configure this node first", self._server)
        return [str(name) for name in values[0]]

    def _wait_until_active(self, watch: Watch) -> None:
        """Wait until the service exists and its node is active. A node without `get_state` counts as active."""
        end = time.monotonic() + self._wait
        self._wait_for(self._client, self._wait, watch)
        with contextlib.suppress(ServiceError):
            self._wait_for(self._states, _GRACE)
        if self._states.service_is_ready():
            left = max(0.0, end - time.monotonic())
            wait_until_active(self._node, self._server, left, watch, self._executor)


def solutions_of(response: Any) -> Solutions:
    """Return the answer in a response of `SampleIK`, `SolveAllIK` or `DrawIK`.

    `ServiceError` is raised if the server refused the request.
    """
    solutions, code = response.solutions, response.solutions.error_code
    if not len(solutions.n_per_pose):
        raise ServiceError(f"the server answered with error code {code.val}: {code.message}", code.val)
    return Solutions.from_message(solutions)
