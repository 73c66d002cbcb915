"""Compilation and launches of kernels on NVIDIA's GPUs, without `nvcc`.

NVIDIA's compiler NVRTC compiles the headers of the solver on the user's machine, one kernel at a time. NVRTC has no
standard library, so `standard.hpp` replaces the functions that the headers use. Binaries are stored in the cache folder
of the user. Their names are hashes of the sources, the options and the versions of the compiler.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.metadata
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import FloatArray
from eim_ros.core.errors import ConfigurationError, MissingPackageError
from eim_ros.core.files import write_atomically
from eim_ros.ik.device import _kernels

Bytes = npt.NDArray[np.uint8]
Arrays = tuple[npt.NDArray[Any], ...]

FOLDER = Path(__file__).parent
SOLVER = FOLDER.parents[1] / "solver"
REPLACED = (
    *("algorithm", "bit", "cmath", "cstddef", "cstdint", "cstring", "functional", "limits", "optional", "type_traits"),
    *("utility", "vector"),
)
"""Standard headers that `standard.hpp` replaces."""
PACKAGES = ("nvidia-cuda-nvrtc", "nvidia-cuda-cccl")
THREADS = 128  # number of threads of a block
# By default, the compiler spends minutes on inlining. "min" skips the slowest optimisations, which improve speed least.
EFFORT = "min"


def sources() -> dict[str, bytes]:
    """Return the contents of all files that kernels are compiled from, by name."""
    paths = [path for suffix in ("cu", "hpp") for path in FOLDER.rglob(f"*.{suffix}")]
    paths += [path for folder in ("chain", "closed_form", "numerics") for path in (SOLVER / folder).glob("*.hpp")]
    return {str(path.relative_to(SOLVER.parent)): path.read_bytes() for path in sorted(paths)}


def compiled(name: str, architecture: str, effort: str = EFFORT) -> bytes:
    """Return the binary of a kernel for an architecture such as "sm_90". Compilation needs no GPU.

    `effort` is NVRTC's option `-Ofast-compile`.

    Raises
    ------
    MissingPackageError
        If NVIDIA's packages are not installed.
    """
    try:
        from cuda.core import Program, ProgramOptions

        files = [file for package in PACKAGES for file in importlib.metadata.files(package) or ()]
    except ModuleNotFoundError as error:  # also raised if a distribution is missing
        raise MissingPackageError("a GPU", "cuda") from error
    library = next(Path(str(file.locate())) for file in files if file.match("cuda/std/version")).parents[2]
    with tempfile.TemporaryDirectory() as standard:
        for header in REPLACED:
            Path(standard, header).write_text('#pragma once\n#include "standard.hpp"\n', encoding="utf-8")
        options = ProgramOptions(
            name="kernels.cu",
            arch=architecture,
            std="c++20",
            device_as_default_execution_space=True,  # the headers have no annotations
            builtin_initializer_list=True,
            device_int128=True,
            fma=False,  # round as on the processor
            define_macro=[
                ("EIM_NAME", name),
                ("EIM_FUNCTION", _kernels.FUNCTIONS[name]),
                ("EIM_THREADS", str(THREADS)),
                ("EIM_REQUEST_SIZE", str(_kernels.SIZES[0])),
                ("EIM_ARM_SIZE", str(_kernels.SIZES[1])),
                ("__extension__", ""),
            ],
            diag_suppress=[161, 1097],  # unknown pragmas and attributes
            ofast_compile=effort,
            include_path=[standard, str(FOLDER), str(SOLVER), str(library)],
        )
        text = (FOLDER / "kernels.cu").read_text(encoding="utf-8")
        return bytes(Program(text, "c++", options).compile("cubin").code)


def cache_folder() -> Path:
    """Return the folder of compiled kernels, below `XDG_CACHE_HOME` or `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "eim_ros", "kernels")


def cached(name: str, architecture: str) -> bytes:
    """Return the binary of a kernel from the cache. A missing binary is compiled and stored."""
    try:
        versions = [importlib.metadata.version(package) for package in ("cuda-core", *PACKAGES)]
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingPackageError("a GPU", "cuda") from error
    made_of = (name, _kernels.FUNCTIONS[name], architecture, EFFORT, THREADS, versions, sources())
    path = cache_folder() / f"{name}-{architecture}-{hashlib.sha256(repr(made_of).encode()).hexdigest()[:32]}.cubin"
    if path.is_file():
        return path.read_bytes()
    binary = compiled(name, architecture)
    write_atomically(path, binary)
    return binary


class Cuda:
    """A GPU with an arm in its memory.

    Raises
    ------
    MissingPackageError
        If NVIDIA's packages are not installed.
    ConfigurationError
        If NVIDIA's driver or the GPU is missing.
    """

    def __init__(self, arm: Bytes, number: int) -> None:
        try:
            from cuda.bindings import driver
        except ModuleNotFoundError as error:
            raise MissingPackageError("a GPU", "cuda") from error
        self._driver: Any = driver
        self.number = number
        try:
            self._call("cuInit", 0)
        except RuntimeError as error:  # the library of the driver is missing
            raise ConfigurationError("NVIDIA's driver is not installed on this machine: install it", "cuda") from error
        n_devices = self._call("cuDeviceGetCount")
        if number >= n_devices:
            raise ConfigurationError(
                f"there is no GPU {number}: NVIDIA's driver finds {n_devices} GPU(s), numbered from 0: use one of them",
                number,
            )
        device = self._call("cuDeviceGet", number)
        self._context = self._call("cuDevicePrimaryCtxRetain", device)  # torch and CuPy use it, too
        capability = driver.CUdevice_attribute
        major, minor, self.ratio = (
            self._call("cuDeviceGetAttribute", attribute, device)
            for attribute in (
                capability.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                capability.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                capability.CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO,
            )
        )
        self._architecture = f"sm_{major}{minor}"
        self._functions: dict[str, Any] = {}
        with self._current():
            self.arm = self._uploaded(arm)
        weakref.finalize(self, _free, driver, self._context, self.arm).atexit = False  # at exit, the driver ends first

    def launch(self, name: str, request: Bytes, n: int, stream: int) -> None:
        """Start a kernel for n poses in a stream, and return before it ends."""
        with self._current():
            if name not in self._functions:
                module = self._call("cuModuleLoadData", cached(name, self._architecture))
                self._functions[name] = self._call("cuModuleGetFunction", module, name.encode())
            parameters = (ctypes.c_void_p * 1)(request.ctypes.data)  # copied by the call
            grid, block = (-(-n // THREADS), 1, 1), (THREADS, 1, 1)
            pointer = ctypes.addressof(parameters)
            self._call("cuLaunchKernel", self._functions[name], *grid, *block, 0, stream, pointer, 0)

    def answers(self, name: str, poses: FloatArray, arrays: Arrays, request: Callable[[list[int]], Bytes]) -> None:
        """Fill arrays in host memory with the rows of poses (n, 4, 4) in host memory.

        `request` returns the arguments of the kernel, given the addresses of arm, poses and arrays.
        """
        with self._current():
            taken = [self._uploaded(poses)]
            try:
                taken += [self._call("cuMemAlloc", array.nbytes) for array in arrays]
                self.launch(name, request([int(self.arm), *map(int, taken)]), len(poses), 0)
                for array, address in zip(arrays, taken[1:], strict=True):
                    self._call("cuMemcpyDtoH", array.ctypes.data, address, array.nbytes)  # waits for the kernel
            finally:
                for address in taken:
                    self._call("cuMemFree", address)

    @contextmanager
    def _current(self) -> Iterator[None]:
        """Select the GPU for calls of the driver, and restore the previous one, on which other libraries rely."""
        self._call("cuCtxPushCurrent", self._context)
        try:
            yield
        finally:
            self._call("cuCtxPopCurrent")

    def _uploaded(self, array: npt.NDArray[Any]) -> Any:
        address = self._call("cuMemAlloc", array.nbytes)
        self._call("cuMemcpyHtoD", address, array.ctypes.data, array.nbytes)
        return address

    def _call(self, name: str, *arguments: Any) -> Any:
        """Call a function of the driver; raise `ConfigurationError` with the driver's name of an error."""
        error, *values = getattr(self._driver, name)(*arguments)
        if int(error):
            text = getattr(error, "name", str(error))
            raise ConfigurationError(f"NVIDIA's driver reports {text} in the call of {name}", text)
        return values[0] if values else None


def _free(driver: Any, context: Any, address: Any) -> None:
    """Free memory of a GPU. Its context need not be the current one."""
    driver.cuCtxPushCurrent(context)
    driver.cuMemFree(address)
    driver.cuCtxPopCurrent()


@functools.lru_cache(maxsize=16)
def on_gpu(arm: bytes, number: int) -> Cuda:
    """Return a GPU with an arm in its memory. Samplers with equal arms share it."""
    return Cuda(np.frombuffer(arm, np.uint8), number)
