"""Numerical building blocks that know nothing of distributions: status, root finding, atomic files."""

from eim_ros.numerics.atomic_file import write_atomically
from eim_ros.numerics.roots import RootBracket, decreasing_root
from eim_ros.numerics.status import Status
from eim_ros.numerics.tensor_file import read_tensor_file, write_tensor_file

__all__ = [
    "RootBracket",
    "Status",
    "decreasing_root",
    "read_tensor_file",
    "write_atomically",
    "write_tensor_file",
]
