"""Quality-of-service profiles for servers and clients of this package.

By default, a service keeps the last 10 requests and silently drops older ones. In a test, only 10 of 40 simultaneous
requests were answered. Clients have the same limit for responses. Each client also receives the responses to all other
clients. Its queue therefore fills faster than its own requests suggest.
"""

from __future__ import annotations

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

SERVICE_QOS = QoSProfile(
    history=HistoryPolicy.KEEP_LAST,
    depth=1000,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.VOLATILE,
)

LATCHED_QOS = QoSProfile(
    history=HistoryPolicy.KEEP_LAST,
    depth=1,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)
"""Profile of latched topics such as robot_description: a new subscriber receives the last message."""
