"""Tests of the kernels for GPUs that need no GPU: an imitation of the driver runs the kernels on the processor."""

from __future__ import annotations

import ctypes
import gc
import re
import struct
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from eim_ros import Sampler
from eim_ros.core.errors import ConfigurationError, MissingPackageError, PoseError
from eim_ros.ik.device import _kernels, cuda
from scripts import check_repository

INCLUDE = re.compile(r'^#include [<"](.*)[>"]$', re.MULTILINE)
POSES = [[0.4, 0.1, z, 1.0, 0.0, 0.0, 0.0] for z in (0.3, 0.4, 5.0)]
NAMES = ("roots_6", "roots_7", "branches_7", "restarts_6", "restarts_7", "restarts_any")


def included(path: Path, known: set[Path]) -> set[str]:
    """Return the names of all foreign headers that a file includes directly or indirectly."""
    text = re.sub(r"^#if defined\(__x86_64__\)\n.*?^#endif$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    names: set[str] = set()
    for name in INCLUDE.findall(text):
        own = next((folder / name for folder in (cuda.FOLDER, cuda.SOLVER) if (folder / name).exists()), None)
        if own is None:
            names.add(name)
        elif own not in known:
            known.add(own)
            names |= included(own, known)
    return names


def test_every_standard_header_of_the_kernels_is_replaced_and_every_own_one_is_a_source() -> None:
    known: set[Path] = set()
    assert included(cuda.FOLDER / "kernels.cu", known) <= set(cuda.REPLACED)
    names = {str(path.relative_to(cuda.SOLVER.parent)) for path in known}
    assert "solver/closed_form/subproblem.hpp" in names
    assert names <= set(cuda.sources())


def test_every_source_is_installed() -> None:
    packages = check_repository.setup_arguments()["package_data"]
    root = cuda.SOLVER.parents[1]
    patterns = [
        path
        for name, globs in packages.items()
        for glob in globs
        for path in (root / name.replace(".", "/")).glob(glob)
    ]
    assert {cuda.SOLVER.parent / name for name in cuda.sources()} <= set(patterns)


def test_driver_of_nvidia_takes_the_arguments() -> None:
    """Without a driver, each function converts its arguments and then reports that there is no driver."""
    driver = pytest.importorskip("cuda.bindings.driver", reason="`make cuda` installs it, and CI runs it")
    calls = {
        "cuMemAlloc": (8,),
        "cuMemcpyHtoD": (driver.CUdeviceptr(0), 0, 0),
        "cuMemcpyDtoH": (0, driver.CUdeviceptr(0), 0),
        "cuModuleLoadData": (b"",),
        "cuModuleGetFunction": (driver.CUmodule(0), b"roots_6"),
        "cuLaunchKernel": (driver.CUfunction(0), 1, 1, 1, 128, 1, 1, 0, 0, 0, 0),
        "cuDeviceGetCount": (),
    }
    try:
        driver.cuInit(0)
    except RuntimeError:
        for name, arguments in calls.items():
            with pytest.raises(RuntimeError):
                getattr(driver, name)(*arguments)
    else:
        pytest.skip("there is a driver, which test_gpu.py uses")


def test_kernels_have_the_names_and_the_argument_that_a_launch_uses() -> None:
    pytest.importorskip("cuda.core", reason="`make cuda` installs the compiler, and CI runs it")
    assert tuple(_kernels.FUNCTIONS) == NAMES
    binary = cuda.compiled("branches_7", "sm_90", "max")
    size = len(_kernels.request([0] * 7, 1, 0, 1, 0, 0, True, [], False, False, False, 0.0))
    assert [name for name in NAMES if b".text." + name.encode() in binary] == ["branches_7"]
    # the binary stores two attributes of a kernel: size of its parameters, and maximum number of threads
    assert b"\x03\x19" + struct.pack("<H", size) in binary
    assert b"\x04\x05\x0c\x00" + struct.pack("<3I", cuda.THREADS, 1, 1) in binary


def test_a_header_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cuda.core", reason="`make cuda` installs the compiler, and CI runs it")
    monkeypatch.setattr(cuda, "REPLACED", tuple(name for name in cuda.REPLACED if name != "optional"))
    with pytest.raises(Exception, match="optional"):
        cuda.compiled("restarts_6", "sm_90", "max")


class Driver(types.ModuleType):
    """Imitation of the used functions of `cuda.bindings.driver`. The memory of its device is that of the processor."""

    CUdevice_attribute = types.SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR=9,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR=0,
        CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO=2,
    )

    def __init__(self, n_devices: int = 1, error: int = 0) -> None:
        super().__init__("cuda.bindings.driver")
        self.memory: dict[int, ctypes.Array[ctypes.c_char]] = {}
        self.n_devices, self.error, self.launches = n_devices, error, []
        self.contexts: list[str] = []

    def cuInit(self, flags: int) -> tuple[int]:
        return (self.error,)

    def cuDeviceGetCount(self) -> tuple[int, int]:
        return 0, self.n_devices

    def cuDeviceGet(self, number: int) -> tuple[int, int]:
        return 0, number

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[int, str]:
        return 0, "context"

    def cuDeviceGetAttribute(self, attribute: int, device: int) -> tuple[int, int]:
        return 0, attribute

    def cuCtxPushCurrent(self, context: str) -> tuple[int]:
        self.contexts.append(context)
        return (0,)

    def cuCtxPopCurrent(self) -> tuple[int, str]:
        return 0, self.contexts.pop()

    def cuMemAlloc(self, size: int) -> tuple[int, int]:
        assert self.contexts
        buffer = ctypes.create_string_buffer(size)
        self.memory[ctypes.addressof(buffer)] = buffer
        return 0, ctypes.addressof(buffer)

    def cuMemFree(self, address: int) -> tuple[int]:
        assert self.contexts
        return (0,) if self.memory.pop(address, None) else (1,)

    def cuMemcpyHtoD(self, to: int, source: int, size: int) -> tuple[int]:
        assert ctypes.sizeof(self.memory[to]) >= size
        ctypes.memmove(to, source, size)
        return (0,)

    def cuMemcpyDtoH(self, to: int, source: int, size: int) -> tuple[int]:
        assert ctypes.sizeof(self.memory[source]) >= size
        ctypes.memmove(to, source, size)
        return (0,)

    def cuModuleLoadData(self, binary: bytes) -> tuple[int, bytes]:
        return 0, binary

    def cuModuleGetFunction(self, module: bytes, name: bytes) -> tuple[int, str]:
        assert module == b"binary of " + name
        return 0, name.decode()

    def cuLaunchKernel(self, function: str, *arguments: int) -> tuple[int]:
        *shape, _, stream, parameters, extra = arguments
        size = len(_kernels.request([0] * 7, 1, 0, 1, 0, 0, True, [], False, False, False, 0.0))
        address = ctypes.c_void_p.from_address(parameters).value
        _kernels.run(function, np.frombuffer(ctypes.string_at(address, size), np.uint8))
        self.launches.append((function, *shape, stream))
        return (0,)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    fake = Driver()
    install(fake, monkeypatch)
    yield fake
    cuda.on_gpu.cache_clear()


def install(fake: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    bindings = types.ModuleType("cuda.bindings")
    bindings.driver = fake  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", fake)
    monkeypatch.setattr(cuda, "cached", lambda name, architecture: f"binary of {name}".encode())
    cuda.on_gpu.cache_clear()


@pytest.mark.parametrize("robot", ["ur5e", "panda", "xarm7"])
def test_launches_give_the_rows_of_the_processor_and_free_their_memory(robot: str, driver: Driver) -> None:
    device, twin = Sampler(robot).on("cuda"), Sampler(robot).on("cpu")
    found, expected = device.sample_batch(POSES * 50, 4, seed=2), twin.sample_batch(POSES * 50, 4, seed=2)
    assert np.array_equal(found.q, expected.q, equal_nan=True)
    assert (found.counts == expected.counts).all() and (found.status == expected.status).all()
    assert list(driver.memory) == [device._cuda.arm] and not driver.contexts
    ((function, *shape),) = driver.launches
    assert function in NAMES and shape == [2, 1, 1, cuda.THREADS, 1, 1, 0]
    cuda.on_gpu.cache_clear()
    del device
    gc.collect()
    assert not driver.memory and not driver.contexts


def test_launches_measure_rows(driver: Driver) -> None:
    device, twin = Sampler("ur5e").on("cuda"), Sampler("ur5e").on("cpu")
    found, expected = (each.measured_batch(POSES, 4, seed=2) for each in (device, twin))
    assert np.array_equal(found.manipulability, expected.manipulability, equal_nan=True)
    assert (found.manipulability[0] > 0.0).any() and list(driver.memory) == [device._cuda.arm]


@pytest.mark.parametrize(("ratio", "screens"), [(2, False), (64, True)])
def test_card_that_is_slow_in_double_precision_rules_out_branches_in_single(
    ratio: int, screens: bool, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO"
    monkeypatch.setattr(driver.CUdevice_attribute, name, ratio)
    device = Sampler("panda").on("cuda")
    assert device._screens == screens and not Sampler("panda").on("cpu")._screens
    found, expected = device.sample_batch(POSES, 4, seed=2), Sampler("panda").on("cpu").sample_batch(POSES, 4, seed=2)
    assert np.array_equal(found.q, expected.q, equal_nan=True)


def test_pose_that_is_not_rigid_is_empty_and_named_when_it_is_read(driver: Driver) -> None:
    poses = np.tile(np.eye(4), (2, 1, 1))
    poses[1, 0, 0] = 1.1
    device = Sampler("ur5e").on("cuda")
    call = device._several(1, None)
    found = device._of_blocks(poses, call, 0)
    assert found.counts[1] == 0 and 1 in found.undecided
    with pytest.raises(PoseError, match="pose 1 of 2"):
        found.cpu()


def test_what_is_missing_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = Sampler("ur5e")
    install(Driver(n_devices=0), monkeypatch)
    with pytest.raises(ConfigurationError, match="there is no GPU 0: NVIDIA's driver finds 0"):
        sampler.on("cuda")
    install(Driver(error=100), monkeypatch)
    with pytest.raises(ConfigurationError, match="reports 100 in the call of cuInit"):
        sampler.on("cuda")
    monkeypatch.setattr(Driver, "cuInit", lambda *_: (_ for _ in ()).throw(RuntimeError("no library")))
    with pytest.raises(ConfigurationError, match="NVIDIA's driver is not installed"):
        sampler.on("cuda")
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(MissingPackageError, match=r"\[cuda\]"):
        sampler.on("cuda")
    cuda.on_gpu.cache_clear()


def test_binaries_are_cached_by_what_they_are_made_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made: list[str] = []
    monkeypatch.setattr(cuda, "compiled", lambda name, architecture: made.append(architecture) or b"binary")
    monkeypatch.setattr("importlib.metadata.version", lambda package: "13.0")
    for architecture in ("sm_90", "sm_90", "sm_86"):
        assert cuda.cached("roots_6", architecture) == b"binary"
    assert made == ["sm_90", "sm_86"]
    assert len(list(tmp_path.rglob("*.cubin"))) == 2
    monkeypatch.setattr(cuda, "sources", lambda: {"kernels.hpp": b"changed"})
    cuda.cached("roots_6", "sm_90")
    assert made == ["sm_90", "sm_86", "sm_90"]
