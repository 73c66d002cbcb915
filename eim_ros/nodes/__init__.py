"""ROS 2 nodes: thin adapters between messages and the pure objects of the package.

Each node has a module or a folder. `common` contains code that several nodes share. The names below are for programs
that call the nodes. These names are imported on first use, because the settings of the nodes must be readable on a
computer without ROS.
"""

from typing import TYPE_CHECKING

from eim_ros.core.lazy import deferred_names

if TYPE_CHECKING:
    from eim_ros.nodes.common.client import RetryingClient, wait_until_active
    from eim_ros.nodes.common.qos import SERVICE_QOS
    from eim_ros.nodes.ik_server.client import IKClient, solutions_of

__all__ = ["IKClient", "RetryingClient", "SERVICE_QOS", "solutions_of", "wait_until_active"]

__getattr__, __dir__ = deferred_names(__name__, __file__)
