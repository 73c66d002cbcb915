"""Expected information maximisation (EIM), which learns from samples of the target or from its known density."""

from typing import TYPE_CHECKING

from eim_ros.core.lazy import deferred_names

if TYPE_CHECKING:
    from eim_ros.learning.eim.eim import EIM

__all__ = ["EIM"]

__getattr__, __dir__ = deferred_names(__name__, __file__)
