"""Parameters that every node has."""

from __future__ import annotations

import dataclasses

from eim_ros.settings import Settings, option

__all__ = ["ManagedSettings"]


@dataclasses.dataclass(frozen=True)
class ManagedSettings(Settings):
    """How a lifecycle node begins."""

    autostart: bool = option(
        True, "Configure and activate at start; false leaves both to a lifecycle manager or 'ros2 lifecycle set'."
    )
