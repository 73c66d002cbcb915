"""Compile the headers of the closed forms for GPUs, without changes and without a GPU, and print the sizes.

    make cuda

NVIDIA's run-time compiler NVRTC has no standard library, so `gpu/standard.hpp` takes its place. The kernels in
`gpu/closed_forms.cu` only prove that the headers compile: nothing runs them yet. By default they are not optimised,
because that takes minutes: closed forms are full of small functions, which the compiler inlines.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KERNELS = ROOT / "gpu/closed_forms.cu"
ARCHITECTURES = ("sm_75", "sm_86", "sm_90")  # Turing, the oldest that CUDA 13 supports; Ampere; Hopper
REPLACED = {
    **dict.fromkeys(
        ("algorithm", "bit", "cmath", "cstddef", "cstdint", "cstring", "functional", "limits", "type_traits"),
        "standard.hpp",
    ),
    **dict.fromkeys(("utility", "vector"), "standard.hpp"),
    # Kinematics of any chain, which needs more of the standard library; closed forms use only its angles.
    "chain/chain.hpp": "numerics/trigonometry.hpp",
}
"""Headers that are replaced, and by which one."""


@contextmanager
def replacements() -> Iterator[Path]:
    """Yield a folder with the replaced headers."""
    with tempfile.TemporaryDirectory() as name:
        for header, replacement in REPLACED.items():
            path = Path(name, header)
            path.parent.mkdir(exist_ok=True)
            path.write_text(f'#pragma once\n#include "{replacement}"\n', encoding="utf-8")
        yield Path(name)


def library_folder() -> Path:
    """Return the folder of libcu++, NVIDIA's standard library for devices."""
    files = importlib.metadata.files("nvidia-cuda-cccl") or ()
    return next(Path(file.locate()) for file in files if file.match("cuda/std/version")).parents[2]


def compiled(source: str, architecture: str, *, optimise: bool = False) -> bytes:
    """Return the binary of a source for one architecture; the error of cuda-core contains the log of the compiler."""
    from cuda.core import Program, ProgramOptions

    with replacements() as replaced:
        folders = [replaced, ROOT / "gpu", ROOT / "eim_ros/solver", library_folder()]
        options = ProgramOptions(
            name=KERNELS.name,
            arch=architecture,
            std="c++20",
            device_as_default_execution_space=True,  # the headers have no annotations
            builtin_initializer_list=True,
            device_int128=True,
            fma=False,  # round as on the processor
            define_macro=("__extension__", ""),
            diag_suppress=1097,  # unknown attributes
            ofast_compile=None if optimise else "max",
            include_path=[str(folder) for folder in folders],
        )
        return bytes(Program(source, "c++", options).compile("cubin").code)


def main() -> int:
    """Compile for each architecture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--optimise", action="store_true", help="optimise, which takes minutes for each architecture")
    arguments = parser.parse_args()
    for architecture in ARCHITECTURES:
        began = time.perf_counter()
        size = len(compiled(KERNELS.read_text(encoding="utf-8"), architecture, optimise=arguments.optimise))
        print(f"{architecture}: {size / 1e6:.2f} MB in {time.perf_counter() - began:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
