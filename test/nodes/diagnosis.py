"""What a server under test tells on `/diagnostics`."""

from __future__ import annotations

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from nodes.client_node import ClientNode
from nodes.server_process import ServerProcess, wait_until


def status(client: ClientNode, server: ServerProcess, wanted: str) -> DiagnosticStatus:
    """The next diagnostic status with this message."""
    found: list[DiagnosticStatus] = []

    def keep(message: DiagnosticArray) -> None:
        found.extend(item for item in message.status if item.message == wanted)

    subscription = client.node.create_subscription(DiagnosticArray, "/diagnostics", keep, 10)

    def seen() -> bool:
        client.executor.spin_once(0.1)
        return bool(found)

    wait_until(seen, f"diagnostics {wanted!r}", server, timeout=20.0)
    client.node.destroy_subscription(subscription)
    return found[-1]
