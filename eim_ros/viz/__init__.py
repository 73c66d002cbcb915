"""Pictures: the only place where matplotlib is imported, when the first is drawn; `eim view` needs the palette."""

from typing import TYPE_CHECKING

from eim_ros.deferred import deferred_names

if TYPE_CHECKING:
    from eim_ros.viz.arm_picture import draw_solutions

__all__ = ["draw_solutions"]

__getattr__, __dir__ = deferred_names(__name__, {"draw_solutions": "arm_picture"})
