"""Kernels that answer many poses at once: on a GPU, or on the processor for tests. See `Sampler.on`."""

from eim_ros.ik.device.sampler import DeviceSampler
from eim_ros.ik.device.solutions import DeviceSolutions

__all__ = ["DeviceSampler", "DeviceSolutions"]
