"""Numerical building blocks that know nothing of distributions: status, atomic files, tensor files, root finding.

`roots.py` needs torch and is imported by its own name.
"""

from eim_ros.numerics.atomic_file import write_atomically
from eim_ros.numerics.status import Status
from eim_ros.numerics.tensor_file import read_array_file, read_tensor_file, write_tensor_file

__all__ = ["Status", "read_array_file", "read_tensor_file", "write_atomically", "write_tensor_file"]
