"""Answers to requests without DDS, from the functions that the services of `ik_server` call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ik.arms import sampler_of
from nodes.client_node import request
from sensor_msgs.msg import JointState

from eim_ros.ik import Sampler
from eim_ros.nodes.common.messages import pose_message
from eim_ros.nodes.ik_server.handlers import SERVICES
from eim_ros.nodes.ik_server.messages import RequestContext, RequestError, with_tip_and_tool
from eim_ros.nodes.settings import IkServerSettings

ENOUGH = 60.0  # [s]
SETTINGS = IkServerSettings()


def served(
    service: str,
    message: Any,
    sampler: Sampler | None = None,
    settings: IkServerSettings = SETTINGS,
    *,
    context: RequestContext | None = None,
    scene: Any = None,
    left: float = ENOUGH,
) -> Any:
    """Return the response of a service that has `left` seconds, by default for the iiwa with a model."""
    used = sampler or sampler_of("iiwa14", "position")
    if hasattr(message, "constraints"):
        used = with_tip_and_tool(used, message.constraints)
    service_type, parse = SERVICES[f"~/{service}"]
    response = service_type.Response()
    parse(message, response, context or RequestContext(used.robot), settings).solve(used, scene, left)
    return response


def refused(service: str, message: Any, *given: Any, **options: Any) -> RequestError:
    """Assert that a request is refused, and return the error."""
    with pytest.raises(RequestError) as caught:
        served(service, message, *given, **options)
    return caught.value


def request_of(service_type: Any, targets: np.ndarray, /, **fields: object) -> Any:
    """Return a request for complete poses (n, 4, 4). `fields` replace fields of the request or of its constraints."""
    poses = [pose_message(pose) for pose in targets]
    return request(service_type=service_type, **{"poses": poses, "timeout": 20.0, "position_only": False, **fields})


def state_of(names: Any, values: Any) -> JointState:
    return JointState(name=list(names), position=[float(value) for value in values])
