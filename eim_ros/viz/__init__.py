"""Pictures: the only place where matplotlib is imported."""

from eim_ros.viz.arm_picture import draw_solutions

__all__ = ["draw_solutions"]
