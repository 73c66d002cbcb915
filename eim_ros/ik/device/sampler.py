"""`DeviceSampler`, which answers many poses by kernels with one thread for each pose."""

from __future__ import annotations

import contextlib
import importlib
import math
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import FloatArray
from eim_ros.core.checks import as_number, with_hints
from eim_ros.core.errors import ConfigurationError, MissingPackageError, NotBuiltError, PoseError
from eim_ros.core.parallel import random_bits
from eim_ros.ik.device.solutions import DeviceSolutions
from eim_ros.ik.request import Near, Progress, Revolutions, checked_count, checked_progress, checked_seed
from eim_ros.ik.setup import Setup
from eim_ros.ik.strategies.restarts import DISTINCT_TOLERANCE
from eim_ros.kinematics.poses import check_poses

if TYPE_CHECKING:
    from eim_ros.ik.device.cuda import Cuda
    from eim_ros.ik.sampler import Sampler

try:
    _kernels = importlib.import_module("eim_ros.ik.device._kernels")
except ModuleNotFoundError as error:
    from eim_ros.core.native import CURE

    raise NotBuiltError(f"the compiled module of the kernels is missing: {CURE}", error.name) from error

SEVEN_JOINTS = 7
MOST_SOLUTIONS = 16  # maximum number of solutions of a pose, without revolutions
MOST_ROWS = 10_000  # maximum number of rows of a pose that are compared with each other
# number of tries without a new row after which the search for rows of a pose ends
BRANCHES_IN_VAIN, RESTARTS_IN_VAIN = 3000, 200
BLOCK_SIZE = 2**27  # size of the rows of a block of poses [byte]
REPORTED = 2**16  # maximum number of poses between two progress reports; the processor needs a second or more for them
LARGEST_WORD = 2**64
# Branches are first ruled out in single precision if it is at least this many times as fast as double precision. The
# ratio is 2 on cards for data centres, and 32 or 64 on other cards.
SLOW_IN_DOUBLE = 8

Arrays = tuple[npt.NDArray[Any], ...]
Bytes = npt.NDArray[np.uint8]


class Backend(Protocol):
    """Interface of classes that run kernels for poses and rows in the memory of the processor."""

    def answers(self, name: str, poses: FloatArray, arrays: Arrays, request: Callable[[list[int]], Bytes]) -> None:
        """Fill arrays with the rows of poses (n, 4, 4). `request` makes a call from the addresses of all arrays."""
        ...


class Twin:
    """Runs kernels on the processor, in one thread."""

    def __init__(self, arm: Bytes) -> None:
        self.arm = arm

    def answers(self, name: str, poses: FloatArray, arrays: Arrays, request: Callable[[list[int]], Bytes]) -> None:
        """Fill arrays with the rows of poses (n, 4, 4)."""
        given: Arrays = (self.arm, poses, *arrays)
        _kernels.run(name, request([each.ctypes.data for each in given]))


class Call(NamedTuple):
    """A kernel and its settings, see `Request` in kernels.hpp."""

    kernel: str
    n_rows: int
    patience: int = 0
    n_values: int = 0
    lists_revolutions: bool = True
    reference: FloatArray | None = None
    apart: float = 0.0
    lists_all: bool = False
    measures: bool = False


@with_hints
class DeviceSampler:
    """Answers many poses on a device, see `Sampler.on`.

    Poses may have any form that `Sampler.solve_batch` accepts, and the answer contains NumPy arrays. Poses on a GPU are
    a torch tensor or a CuPy array (m, 4, 4) in double precision. Their answer belongs to the same library and stays on
    the GPU, and the call only starts a kernel in the current stream of the library. Other arrays with DLPack, such as
    JAX arrays, are exchanged through torch or CuPy on a GPU, and through NumPy on the processor.

    The i-th pose uses `seed + i`, so its rows do not depend on the number of poses. `Sampler` returns other rows for
    the same seed.

    The property `method` names the algorithm. A closed form of six joints returns all solutions. Arms with seven joints
    have a parameterised closed form if the same axes intersect as in a Panda or an iiwa. All other arms, positions
    and tolerances need least squares. Double precision is slow on consumer cards. For seven joints, these cards first
    rule out branches in single precision, which does not change the rows.

    `progress` is called with the numbers of finished poses and of all poses, at the start and after each block. Calls
    with poses on a GPU cannot report progress, because they only start a kernel.

    Parameters
    ----------
    sampler : Sampler
    device : str
        "cuda", "cuda:1" and so on, or "cpu".

    Raises
    ------
    ConfigurationError
        If the device is unknown or missing, or if the sampler has a model or constraints that kernels do not check.
    MissingPackageError
        If NVIDIA's packages are missing.

    Examples
    --------
    >>> from eim_ros import Sampler
    >>> [Sampler(name).on("cpu").method for name in ("ur5e", "panda", "gen3")]
    ['closed form', 'parameterised closed form', 'least squares']
    """

    def __init__(self, sampler: Sampler, device: str) -> None:
        self._sampler, self._robot, self._setup = sampler, sampler.robot, sampler._setup
        name, _, number = str(device).partition(":")
        if name not in ("cpu", "cuda") or (number and not (name == "cuda" and number.isdecimal())):
            raise ConfigurationError(f"device must be 'cuda', 'cuda:1' or 'cpu', got {device!r}", device)
        _refuse(sampler, self._setup)
        setup, constraints = self._setup, self._setup.constraints
        position_only = setup.is_position_only(sampler.context_kind)
        tolerances = np.empty(0) if setup.tolerances is None else setup.tolerances
        is_plain = not position_only and setup.tolerances is None
        is_fixed = setup.lower == setup.upper
        form, fixed = self._robot.closed_form, -1
        if self._robot.dof == SEVEN_JOINTS:
            forms = ((int(j), self._robot.closed_form_with_fixed(int(j))) for j in np.flatnonzero(is_fixed))
            fixed, form = next(((j, each) for j, each in forms if each is not None), (-1, None))
        has_roots = is_plain and form is not None and form.kind != "general"
        errors = constraints.position_tolerance, constraints.orientation_tolerance
        links, fixed = self._robot.links, fixed if has_roots else -1
        reach = [*setup.first_joint.tolist(), setup.farthest]
        arm = _kernels.arm(links, setup.bounds, position_only, tolerances, *errors, reach, fixed)
        self._n_plain, fits, fits_parameterised = _kernels.kinds(arm)
        self._has_roots = has_roots and fits
        self._has_branches = is_plain and fits_parameterised and not is_fixed.any()
        widest = max(float(np.abs([setup.lower, setup.upper]).max()), self._robot.reach)
        self._in_single = setup.tolerances is None and widest <= _kernels.LONGEST_IN_SINGLE
        self._cuda: Cuda | None = None
        self._backend: Backend = Twin(arm)
        if name == "cuda":
            from eim_ros.ik.device.cuda import on_gpu

            self._backend = self._cuda = on_gpu(arm.tobytes(), int(number or 0))
        self._screens = self._in_single and self._cuda is not None and self._cuda.ratio >= SLOW_IN_DOUBLE

    @property
    def method(self) -> str:
        """How rows are found: "closed form", "parameterised closed form" or "least squares"."""
        if self._has_roots:
            return "closed form"
        return "parameterised closed form" if self._has_branches else "least squares"

    def solve_batch(
        self, poses: Any, near: Near | None = None, *, seed: int | None = None, progress: Progress | None = None
    ) -> DeviceSolutions:
        """Return one solution of each pose, or none.

        If the arm has a closed form, the solution nearest to `near` is returned, as in `Sampler.solve_batch`. Without
        `near`, each solution is equally likely, and joints are in the revolution nearest to the middle of the limits.
        For other arms, least squares start at `near`, and the result need not be the nearest solution.

        Examples
        --------
        >>> from eim_ros import Sampler
        >>> poses = [[0.4, 0.1, z, 1.0, 0.0, 0.0, 0.0] for z in (0.3, 0.5, 5.0)]  # the last one is out of reach
        >>> found = Sampler("panda").on("cpu").solve_batch(poses, seed=0)
        >>> found.q.shape, found.counts.tolist(), found.undecided.tolist()
        ((3, 1, 7), [1, 1, 0], [2])
        """
        reference = None if near is None else self._sampler._arguments.configuration(near)
        return self._answer(poses, self._several(1, reference), seed, progress)

    def sample_batch(
        self,
        poses: Any,
        n: int = 100,
        *,
        revolutions: Revolutions = "all",
        seed: int | None = None,
        progress: Progress | None = None,
    ) -> DeviceSolutions:
        """Return up to `n` solutions of each pose; any two differ by more than 0.01 rad or m in some joint.

        `n` is at most 10,000. A closed form returns all solutions, or a random choice if there are more than `n`,
        followed by their 2π-equivalent solutions. A parameterised form draws its parameter, which is the first or the
        last joint, uniformly within its limits. It also draws one of 8 branches with equal probabilities. These rows
        are uniform neither in the joints nor along the self-motion, so use `Sampler.draw` for uniform rows. Least
        squares from random seeds are used for all other arms, and for poses at which 3000 tries find no branch.

        Examples
        --------
        >>> from eim_ros import Sampler
        >>> found = Sampler("panda").on("cpu").sample_batch([[0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0]], 20, seed=0)
        >>> found.q.shape, bool((found.errors < 1e-6).all())
        ((1, 20, 7), True)
        """
        n = checked_count(n, "n")
        if n > MOST_ROWS:
            raise ConfigurationError(f"n must be at most {MOST_ROWS} on a device, got {n}: use Sampler.sample_batch", n)
        return self._answer(poses, self._several(n, None, DISTINCT_TOLERANCE, revolutions), seed, progress)

    def solve_all_batch(
        self,
        poses: Any,
        max_spacing: float = 0.3,
        *,
        max_solutions: int | None = None,
        revolutions: Revolutions = "all",
        progress: Progress | None = None,
    ) -> DeviceSolutions:
        """Return all solutions of each pose if the arm has a closed form, otherwise solutions along its self-motions.

        The answer of a closed form is complete if each of its cases was decided. `DeviceSolutions.undecided` lists
        poses with a free angle, with more than `max_solutions` solutions, or with a joint so near a limit that rounding
        matters. A parameterised form uses values of its parameter that are at most `max_spacing` [rad] apart. Other
        joints may be farther apart, and the answer is not marked as complete.

        `max_solutions` is the number of rows per pose. By default, a closed form has 16 rows for each revolution that
        the limits allow, at most 1024. A parameterised form has 8 rows for each value of the parameter.

        Raises
        ------
        ConfigurationError
            If the arm has no closed form.
        """
        lists = _lists(revolutions)
        if self._has_roots:
            turns = np.floor((self._setup.upper - self._setup.lower) / math.tau + 1e-9).clip(1.0, 64.0).prod()
            n_rows = min(1024, MOST_SOLUTIONS * int(turns)) if lists else MOST_SOLUTIONS
            call = Call("roots", n_rows, lists_revolutions=lists)
        elif self._has_branches:
            if not 1e-3 <= as_number(max_spacing) < math.inf:
                raise ConfigurationError(
                    f"max_spacing must be finite and at least 0.001, got {max_spacing!r}", max_spacing
                )
            n_values = max(1, math.ceil(math.tau / float(max_spacing)))
            call = Call("branches", 8 * n_values, n_values=n_values)
        else:
            raise ConfigurationError(
                "solve_all_batch needs a closed form, which this arm or task does not have: use sample_batch", self
            )
        if max_solutions is not None:
            call = call._replace(n_rows=checked_count(max_solutions, "max_solutions"))
        return self._answer(poses, call._replace(lists_all=True), None, progress)

    def measured_batch(self, poses: Any, n: int, *, seed: int) -> DeviceSolutions:
        """Return solutions with their manipulability.

        A closed form returns all solutions up to full revolutions. Other arms get up to `n` solutions.
        """
        call = Call("roots", MOST_SOLUTIONS, lists_revolutions=False, lists_all=True)
        if not self._has_roots:
            call = self._several(n, None, DISTINCT_TOLERANCE)
        return self._answer(poses, call._replace(measures=True), seed)

    def _several(
        self, n: int, reference: FloatArray | None, apart: float = 0.0, revolutions: Revolutions = "all"
    ) -> Call:
        lists = _lists(revolutions)
        if self._has_roots:
            return Call("roots", n, lists_revolutions=lists and n > 1, reference=reference, apart=apart)
        if not lists and (self._setup.upper - self._setup.lower > math.tau).any():
            raise ConfigurationError(
                "revolutions='one' needs a closed form, or joint limits of at most one "
                "revolution: give revolutions='all'",
                revolutions,
            )
        if self._has_branches and reference is None:
            return Call("branches", n, BRANCHES_IN_VAIN, apart=apart)
        return Call("restarts", n, RESTARTS_IN_VAIN, reference=reference, apart=apart)

    def _answer(self, poses: Any, call: Call, seed: int | None, progress: Progress | None = None) -> DeviceSolutions:
        first = checked_seed(seed)
        first = random_bits() if first is None else first
        tensor = _tensor(poses)
        if tensor is None and hasattr(poses, "__dlpack__") and not isinstance(poses, np.ndarray):
            return self._of_other_library(poses, call, first, progress)
        if tensor is None:
            return self._of_blocks(check_poses(poses, self._robot.base_link), call, first, progress)
        library, device = tensor
        if device == "cpu" and self._cuda is None:
            given = check_poses(poses.detach().numpy(), self._robot.base_link)
            return self._of_blocks(given, call, first, progress, library.from_numpy)
        own = "cpu" if self._cuda is None else f"cuda:{self._cuda.number}"
        if device != own:
            raise PoseError(f"the poses are on {device}, but the sampler is on {own}: move the poses to {own}", device)
        if progress is not None:
            raise ConfigurationError(
                "no progress is reported for poses on a GPU: leave out progress, or move the poses to NumPy", progress
            )
        return self._of_device(poses, library, call, first)

    def _of_other_library(self, poses: Any, call: Call, seed: int, progress: Progress | None) -> DeviceSolutions:
        """Answer an array of any library with DLPack, such as JAX, without a copy of the poses."""
        if str(poses.dtype).split(".")[-1] != "float64":
            hint = ": set jax_enable_x64" if type(poses).__module__.startswith("jax") else ""
            raise PoseError(f"poses must be in float64, got {poses.dtype}{hint}", poses)
        if not hasattr(poses, "__array_namespace__"):
            name = type(poses).__module__.partition(".")[0]
            raise PoseError(
                f"results cannot be converted to arrays of the library {name}: pass torch.from_dlpack(poses) or "
                "cupy.from_dlpack(poses)",
                name,
            )
        carrier = np if self._cuda is None else _library_of_gpu_arrays()
        found = self._answer(carrier.from_dlpack(poses), call, seed, progress)
        return found.converted(poses.__array_namespace__().from_dlpack)

    def _of_blocks(
        self,
        poses: FloatArray,
        call: Call,
        seed: int,
        progress: Progress | None = None,
        converted: Callable[[Any], Any] = np.asarray,
    ) -> DeviceSolutions:
        """Answer poses in the memory of the processor. They are divided into blocks that fit on a GPU."""
        m, layout, report = len(poses), self._layout(call), checked_progress(progress)
        size = max(1, BLOCK_SIZE // (8 * (self._robot.dof + 2) * call.n_rows))
        if progress is not None and self._cuda is None:
            size = min(size, REPORTED)
        report(0, m)
        columns = [np.empty((m, *shape), kind) for shape, kind in layout]
        for first in range(0, m, size):
            some = slice(first, min(first + size, m))
            part = np.ascontiguousarray(poses[some])
            arrays = tuple(np.empty((*shape, len(part)), kind) for shape, kind in layout)
            request = self._request(call, len(part), seed + first)
            self._backend.answers(self._kernel(call), part, arrays, request)
            for column, array in zip(columns, arrays, strict=True):
                column[some] = np.moveaxis(array, -1, 0)
            report(some.stop, m)
        return self._found(map(converted, columns), call)

    def _of_device(self, poses: Any, library: Any, call: Call, seed: int) -> DeviceSolutions:
        """Start a kernel for an array on the GPU, in the current stream of its library."""
        assert self._cuda is not None
        if poses.ndim != 3 or poses.shape[1:] != (4, 4) or str(poses.dtype).split(".")[-1] != "float64":
            raise PoseError(
                f"poses on a GPU must be (m, 4, 4) in float64, got {tuple(poses.shape)} in {poses.dtype}", poses
            )
        shapes = [((*shape, len(poses)), getattr(library, kind)) for shape, kind in self._layout(call)]
        if library.__name__ == "torch":
            poses, device = poses.detach().contiguous(), poses.device
            stream = library.cuda.current_stream(device).cuda_stream
            arrays = [library.empty(shape, dtype=kind, device=device) for shape, kind in shapes]
            addresses = [each.data_ptr() for each in (poses, *arrays)]
        else:
            poses, stream = library.ascontiguousarray(poses), library.cuda.get_current_stream().ptr
            arrays = [library.empty(shape, kind) for shape, kind in shapes]
            addresses = [each.data.ptr for each in (poses, *arrays)]
        if len(poses):
            request = self._request(call, len(poses), seed)([int(self._cuda.arm), *addresses])
            self._cuda.launch(self._kernel(call), request, len(poses), stream)
        return self._found((library.moveaxis(each, -1, 0) for each in arrays), call)

    def _layout(self, call: Call) -> list[tuple[tuple[int, ...], str]]:
        """Return the shape and type of each array of an answer, in the order of `Request`.

        The axis of the poses is not part of the shapes. Kernels use this axis as the last one, so they store rows joint
        by joint.
        """
        n = call.n_rows
        layout: list[tuple[tuple[int, ...], str]] = [((n, self._robot.dof), "float64"), ((n, 2), "float64")]
        return [*layout, ((), "int32"), ((), "uint8"), *([((n,), "float64")] if call.measures else [])]

    def _found(self, columns: Iterable[Any], call: Call) -> DeviceSolutions:
        q, errors, counts, status, *measures = columns
        return DeviceSolutions(q, counts, errors, status, self._robot, call.lists_all, *measures)

    def _kernel(self, call: Call) -> str:
        """Return the name of the kernel of this arm."""
        return f"{call.kernel}_{self._n_plain or 'any'}"

    def _request(self, call: Call, n: int, seed: int) -> Callable[[list[int]], Bytes]:
        """Return a function that makes the arguments of a kernel for n poses from the addresses of its arrays."""
        setup, has_reference = self._setup, call.reference is not None
        reference = call.reference if call.reference is not None else 0.5 * (setup.lower + setup.upper)
        settings = n, seed % LARGEST_WORD, call.n_rows, call.patience, call.n_values, call.lists_revolutions

        def made(addresses: list[int]) -> Bytes:
            ends = reference.tolist(), has_reference, self._in_single, self._screens, call.apart
            all_addresses = addresses if call.measures else [*addresses, 0]
            request: Bytes = _kernels.request(all_addresses, *settings, *ends)
            return request

        return made


def _lists(revolutions: Any) -> bool:
    if revolutions not in ("all", "one"):
        raise ConfigurationError(f"revolutions must be 'all' or 'one', got {revolutions!r}", revolutions)
    return bool(revolutions == "all")


def _refuse(sampler: Sampler, setup: Setup) -> None:
    """Raise `ConfigurationError` if the sampler has a model or constraints that kernels do not support."""
    constraints = setup.constraints
    refused = {
        "a model": sampler.n_experts > 0,
        "self-collision checks": constraints.self_collision,
        "obstacles": bool(constraints.obstacles),
        "conditions on links": bool(constraints.links),
        "a branch": bool(constraints.branch),
        "slides without limits": len(setup.robot.unlimited_slides) > 0,
        f"more than {_kernels.MOST_JOINTS} joints": setup.robot.dof > _kernels.MOST_JOINTS,
        f"more than {_kernels.MOST_LINKS} joints with followers": len(setup.robot.links) > _kernels.MOST_LINKS + 1,
    }
    if names := [name for name, is_given in refused.items() if is_given]:
        raise ConfigurationError(
            f"kernels of a device do not support {' or '.join(names)}: use the sampler itself, or a sampler without "
            "them",
            names,
        )


def _library_of_gpu_arrays() -> Any:
    """Return torch, or CuPy if torch is not installed."""
    for name in ("torch", "cupy"):
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module(name)
    raise MissingPackageError("an array of another library on a GPU", "torch")


def _tensor(poses: Any) -> tuple[Any, str] | None:
    """Return the library and the device of a tensor or device array; None for other poses."""
    name = type(poses).__module__.partition(".")[0]
    library = sys.modules.get(name)
    if name == "torch":
        device = poses.device
        return library, device.type if device.index is None else f"{device.type}:{device.index}"
    if name == "cupy":
        return library, f"cuda:{poses.device.id}"
    return None
