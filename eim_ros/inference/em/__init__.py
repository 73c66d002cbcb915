"""Expectation maximisation: of mixtures and experts, truncated, by networks, of exponential families and of causes."""

from eim_ros.inference.em.configuration import EMConfig
from eim_ros.inference.em.em import EM
from eim_ros.inference.em.exponential_em import ExponentialEM, ExponentialEMConfig
from eim_ros.inference.em.multiple_cause_em import MultipleCauseEM, MultipleCauseEMConfig
from eim_ros.inference.em.truncated_em import TruncatedEM, TruncatedEMConfig

__all__ = [
    "EM",
    "EMConfig",
    "ExponentialEM",
    "ExponentialEMConfig",
    "MultipleCauseEM",
    "MultipleCauseEMConfig",
    "TruncatedEM",
    "TruncatedEMConfig",
]
