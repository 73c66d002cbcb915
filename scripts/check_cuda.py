"""Compile all kernels for GPUs, without a GPU, and print the sizes.

    make cuda

The binaries are not run. For one architecture, they are compiled as for a user (`eim_ros/ik/device/cuda.py`). For all
others, they are hardly optimised, to save time.
"""

from __future__ import annotations

import sys
import time

from eim_ros.ik.device._kernels import FUNCTIONS
from eim_ros.ik.device.cuda import EFFORT, compiled

# Turing (the oldest architecture that CUDA 13 supports), Ampere and Hopper
ARCHITECTURES = {"sm_75": "max", "sm_86": "max", "sm_90": EFFORT}


def main() -> int:
    """Compile each kernel for each architecture."""
    for architecture, effort in ARCHITECTURES.items():
        for name in FUNCTIONS:
            began = time.perf_counter()
            size = len(compiled(name, architecture, effort))
            print(f"{architecture} {name}: {size / 1e6:.2f} MB in {time.perf_counter() - began:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
