"""Visual output: the page of `eim view` in the browser (viser), and picture files (matplotlib).

Each library is imported on first use. The computations behind the pictures need neither library.
"""

from typing import TYPE_CHECKING

from eim_ros.core.lazy import deferred_names

if TYPE_CHECKING:
    from eim_ros.view.fits import draw_fit
    from eim_ros.view.picture import draw_solutions

__all__ = ["draw_fit", "draw_solutions"]

__getattr__, __dir__ = deferred_names(__name__, __file__)
