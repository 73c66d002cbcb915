"""Kernels on the processor, and the structures that kernels read, as bytes."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import FloatArray

Bytes = npt.NDArray[np.uint8]

MOST_JOINTS: int
MOST_LINKS: int
LONGEST_IN_SINGLE: float  # [m], [rad]: largest reach and limits for which single precision is enough
SIZES: tuple[int, int]  # of the structures of a call and of an arm [byte]
FUNCTIONS: dict[str, str]  # C++ functions of the kernels by name

def arm(
    links: FloatArray,
    bounds: FloatArray,
    position_only: bool,
    tolerances: FloatArray,
    position_tolerance: float,
    orientation_tolerance: float,
    reach: Sequence[float],
    fixed: int,
) -> Bytes:
    """Return the structure of an arm, see `Chain` and `Task` of the solver.

    `reach` (4,) is the origin of the first joint and the largest distance of a pose from there [m]. `fixed` is the
    index of a fixed joint, or -1.
    """

def kinds(arm: Bytes) -> tuple[int, bool, bool]:
    """Return 6 or 7 for arms of as many revolute joints and 0 for others, and whether an arm has closed forms.

    The first form is of six joints, the second one the parameterised form of seven.
    """

def request(
    addresses: Sequence[int],
    n: int,
    seed: int,
    n_rows: int,
    patience: int,
    n_values: int,
    lists_revolutions: bool,
    reference: Sequence[float],
    has_reference: bool,
    in_single: bool,
    screens: bool,
    apart: float,
) -> Bytes:
    """Return the structure of a call for n poses.

    The seven addresses are those of arm, poses, q, errors, counts, status and manipulabilities; the last one may be 0.
    """

def run(name: str, request: Bytes) -> None:
    """Run a kernel for all poses of a request, one after the other."""
