"""Client of `sample_ik` for programs that are no nodes themselves, such as `eim sample --service`.

    with SampleIKClient("/ik_server/sample_ik", wait=5.0) as client:
        answer = client.sample(SampleIK.Request(...), timeout=3.0)
        samples = samples_of(answer)

Nodes use a `RetryingClient`, or an ordinary client of `eim_ros.srv.SampleIK` with `SERVICE_QOS`.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any

import numpy as np
import rclpy
from lifecycle_msgs.srv import GetState
from rcl_interfaces.srv import GetParameters
from rclpy.client import Client
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import parameter_value_to_python

from eim_ros.core.errors import ServiceError
from eim_ros.ik import ErrorCode, FoundFamilies, Samples
from eim_ros.nodes.common.client import Watch, ignore, wait_until_active
from eim_ros.nodes.common.interfaces import SampleIK
from eim_ros.nodes.common.qos import SERVICE_QOS

_PATIENCE = 0.05  # [s] between two looks for a service
_ANSWERED_WITHIN = 10.0  # [s]
_GRACE = 1.0  # [s] within which the services of a node are discovered, one after the other


class SampleIKClient:
    """A short-lived node in its own context, to be used as a context manager.

    Parameters
    ----------
    service : str
        Full name of the service.
    wait : float
        Longest time to wait for the service to appear, and for its node to become active [s]; may be infinite.
    watch : callable
        Called meanwhile, see `Watch`; what it raises ends the wait.
    service_type : type
        Type of the service.

    Raises
    ------
    ServiceError
        When the service does not appear in time, or its node does not become active.
    """

    def __init__(
        self,
        service: str = "/ik_server/sample_ik",
        wait: float = 5.0,
        watch: Watch = ignore,
        service_type: Any = SampleIK,
    ) -> None:
        self._service = service
        self._server = service.rpartition("/")[0]
        self._wait = wait
        self._context = Context()
        self._context.init()
        try:
            self._node = rclpy.create_node(f"eim_request_{os.getpid()}", context=self._context)
            self._executor = SingleThreadedExecutor(context=self._context)
            self._executor.add_node(self._node)
            self._states: Client = self._node.create_client(GetState, f"{self._server}/get_state")
            self._client: Client = self._node.create_client(service_type, service, qos_profile=SERVICE_QOS)
            self._wait_until_active(watch)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> SampleIKClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the graph."""
        self._context.try_shutdown()

    def sample(self, request: Any, timeout: float = _ANSWERED_WITHIN) -> Any:
        """Response to a request of the service; `timeout` [s] is how long to wait for it, in wall time.

        Raises
        ------
        ServiceError
            When no answer comes in time.
        """
        return self._call(self._client, request, timeout)

    def joint_names(self) -> list[str]:
        """Joints of the server's robot, from the parameter its node tells them by."""
        client = self._node.create_client(GetParameters, f"{self._server}/get_parameters")
        self._wait_for(client, _ANSWERED_WITHIN)
        request = GetParameters.Request(names=["chain.joint_names"])
        values = [parameter_value_to_python(value) for value in self._call(client, request, _ANSWERED_WITHIN).values]
        if len(values) != 1 or None in values:
            raise ServiceError(f"{self._server} does not tell its joints: it is not configured", self._server)
        return [str(name) for name in values[0]]

    def _wait_until_active(self, watch: Watch) -> None:
        """Until the service is there and serves; one with no `get_state` beside it is taken to serve at once."""
        end = time.monotonic() + self._wait
        self._wait_for(self._client, self._wait, watch)
        with contextlib.suppress(ServiceError):
            self._wait_for(self._states, _GRACE)
        if self._states.service_is_ready():
            left = max(0.0, end - time.monotonic())
            wait_until_active(self._node, self._server, left, watch, self._executor)

    def _wait_for(self, client: Client, wait: float, watch: Watch = ignore) -> None:
        began = time.monotonic()
        while not client.service_is_ready():
            elapsed = time.monotonic() - began
            if elapsed >= wait:
                raise ServiceError(f"service {client.srv_name} did not appear within {wait} s: is the node running?")
            watch("", elapsed)
            time.sleep(_PATIENCE)

    def _call(self, client: Client, request: Any, timeout: float) -> Any:
        future = client.call_async(request)
        self._executor.spin_until_future_complete(future, timeout)
        if not future.done():
            client.remove_pending_request(future)
            raise ServiceError(f"service {client.srv_name} did not answer within {timeout} s")
        return future.result()


def joint_positions(response: Any) -> np.ndarray:
    """Positions (n, dof) [rad] or [m] of a response, as a view."""
    dof = len(response.joint_names)
    return np.frombuffer(response.positions, dtype=np.float64).reshape(response.n, dof)


def samples_of(response: Any) -> Samples:
    """The answer that a response carries, with NaN for log densities that it does not tell.

    Raises
    ------
    ServiceError
        If the error code is none that is known here.
    """
    try:
        code = ErrorCode(response.error_code)
    except ValueError as error:
        raise ServiceError(f"the server answered with error code {response.error_code}, which is unknown") from error
    return Samples(
        joint_names=tuple(response.joint_names),
        positions=joint_positions(response),
        position_error=np.array(response.position_error),
        orientation_error=np.array(response.orientation_error),
        valid=np.array(response.valid, dtype=np.bool_),
        expert=np.array(response.expert, dtype=np.uint32),
        error_code=code,
        message=response.message,
        elapsed=response.elapsed,
        known_log_prob=np.array(response.log_prob) if len(response.log_prob) else None,
        completeness=_families_of(response) if response.confidence else None,
        effective_size=response.effective_size or None,
        best_attempt=np.array(response.best_attempt) if len(response.best_attempt) else None,
    )


def _families_of(response: Any) -> FoundFamilies:
    return FoundFamilies(
        lengths=np.array(response.family_lengths),
        closed=np.array(response.family_closed, dtype=np.bool_),
        traced=np.array(response.family_traced, dtype=np.bool_),
        missed_share=response.missed_share,
        confidence=response.confidence,
        is_whole=response.whole,
    )
