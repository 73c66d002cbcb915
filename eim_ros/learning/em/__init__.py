"""Expectation maximisation for mixtures and mixtures of experts, with a truncated variant for many components."""

from typing import TYPE_CHECKING

from eim_ros.core.lazy import deferred_names

if TYPE_CHECKING:
    from eim_ros.learning.configs import TruncatedEMConfig
    from eim_ros.learning.em.em import EM
    from eim_ros.learning.em.truncated import TruncatedEM

__all__ = ["EM", "TruncatedEM", "TruncatedEMConfig"]

__getattr__, __dir__ = deferred_names(__name__, __file__)
