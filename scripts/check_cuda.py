"""Compile all kernels for GPUs, without a GPU, and print the sizes.

    make cuda

Nothing runs the binaries. They are compiled as for a user (`eim_ros/ik/device/cuda.py`) for one architecture. For the
others they are hardly optimised, which takes less time.
"""

from __future__ import annotations

import sys
import time

from eim_ros.ik.device._kernels import FUNCTIONS
from eim_ros.ik.device.cuda import EFFORT, compiled

# Turing, the oldest that CUDA 13 supports; Ampere; Hopper
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
