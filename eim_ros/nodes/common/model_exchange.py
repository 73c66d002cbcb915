"""The service `~/load_model`: a separate thread loads another model while the current one serves requests."""

from __future__ import annotations

import time
from collections.abc import Callable

from rclpy.node import Node

from eim_ros.core.errors import shortened
from eim_ros.nodes.common.interfaces import LoadModel
from eim_ros.nodes.common.service import PendingResponse, RequestPool, create_async_service, reason_of

_MOST_WAITING = 3  # maximum number of models that wait to be loaded


class ModelExchange:
    """Service that loads the requested models one after the other.

    `replace` is called with the path of a model on the loader's thread. It loads the model and makes it the current
    one. If it raises an exception, the previous model remains in use and the response contains the error message.
    """

    def __init__(self, node: Node, replace: Callable[[str], None]) -> None:
        self._node = node
        self._replace = replace
        self._pool: RequestPool[PendingResponse] = RequestPool(
            self._load, self._give_up, n_threads=1, size=_MOST_WAITING
        )

    def open(self) -> None:
        """Create the service."""
        create_async_service(self._node, LoadModel, "~/load_model", self._receive)

    def close(self, timeout: float) -> bool:
        """Stop loading and refuse all waiting requests.

        Return False if a model is still being loaded after `timeout` [s].
        """
        return self._pool.close(timeout)

    def _receive(self, pending: PendingResponse) -> None:
        """Queue a request, or refuse it if too many are waiting; runs on the executor's thread."""
        if self._pool.offer(pending) is None:
            pending.response.message = "other models are being loaded: try again later"
            pending.send()

    def _give_up(self, pending: PendingResponse) -> None:
        pending.response.message = f"{self._node.get_name()} was ended before it was loaded"
        pending.send()

    def _load(self, pending: PendingResponse) -> None:
        """Load a model and send the response; runs on the loader's thread."""
        began, path = time.monotonic(), pending.request.path
        told = f"model {shortened(path)}"
        try:
            self._replace(path)
            pending.response.success = True
            self._node.get_logger().info(f"{told} loaded in {time.monotonic() - began:.1f} s")
        except Exception as error:  # a damaged file can cause any error
            pending.response.message = reason_of(error)
            self._node.get_logger().warning(f"{told} refused: {pending.response.message}")
        pending.send()
