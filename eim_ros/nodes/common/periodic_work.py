"""Work that is done again and again while it is switched on; switched off it costs an idle node nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.timer import Timer

from eim_ros.nodes.common.callbacks import guarded

__all__ = ["PeriodicWork"]


class PeriodicWork:
    """Timers of a node, in wall time.

    Parameters
    ----------
    node : Node
    periods : mapping of callable to float
        What is done, and the time between two times [s]; what it raises is logged.
    """

    def __init__(self, node: Node, periods: Mapping[Callable[[], None], float]) -> None:
        self._node = node
        self._periods = dict(periods)
        self._timers: list[Timer] = []

    @property
    def is_on(self) -> bool:
        """Whether it is switched on."""
        return bool(self._timers)

    def start(self) -> None:
        """Switch on, unless it is."""
        if self._timers:
            return
        clock = Clock(clock_type=ClockType.STEADY_TIME)
        self._timers = [
            self._node.create_timer(period, guarded(self._node, work), clock=clock)
            for work, period in self._periods.items()
        ]

    def stop(self) -> None:
        """Switch off, also from within the work."""
        timers, self._timers = self._timers, []
        for timer in timers:
            self._node.destroy_timer(timer)
