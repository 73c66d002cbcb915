"""Expected Information Maximisation: from samples, by a density ratio, or where the target's density is known."""

from eim_ros.inference.eim.configuration import EIMConfig
from eim_ros.inference.eim.eim import EIM
from eim_ros.inference.eim.known_density import KnownDensityEIM
from eim_ros.inference.eim.known_density_configuration import KnownDensityEIMConfig

__all__ = ["EIM", "EIMConfig", "KnownDensityEIM", "KnownDensityEIMConfig"]
