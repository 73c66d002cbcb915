"""The services of `ik_server` that need its sampler: what each asks, and how it is answered.

~/sample_ik        many configurations for one pose
~/sample_ik_batch  many configurations for each of several poses
~/sample_ik_path   one configuration for each pose of a path
~/get_position_ik  one configuration, the nearest to a state; our type in the shape of MoveIt's GetPositionIK
~/compute_ik       the same by MoveIt's own type, where moveit_msgs is installed
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eim_ros.errors import ConfigurationError, ConstraintError
from eim_ros.ik import ErrorCode, Sampler, sample_path
from eim_ros.ik.batch import answer_batch
from eim_ros.ik.request import SampleRequest
from eim_ros.nodes.common.flat_arrays import float64_bytes
from eim_ros.nodes.common.interfaces import GetPositionIK, MoveItGetPositionIK, SampleIK, SampleIKBatch, SampleIKPath
from eim_ros.nodes.ik_server.fields import (
    RequestError,
    constraints_for,
    count_of,
    poses_of,
    positive,
    random_seed_of,
    timeout_of,
)
from eim_ros.nodes.ik_server.nearest import NearestRequest, parse_nearest
from eim_ros.nodes.ik_server.requests import parse, parse_batch
from eim_ros.nodes.ik_server.responses import fill, fill_batch, fill_nearest, put_code
from eim_ros.nodes.ik_server.settings import IkServerSettings
from eim_ros.nodes.ik_server.surroundings import Surroundings

__all__ = ["CALLS", "Prepared", "budget_of", "outcome_of", "refuse"]

LATE = "timed out: there may be a solution that is nearer"
PATH_SAMPLES = 48
PATH_STEP = 0.3  # [rad] or [m]


@dataclass(frozen=True)
class Prepared:
    """A request that was understood.

    Attributes
    ----------
    timeout : float
        Time the client grants [s].
    solve : callable
        Called with the sampler and the time that is left [s]; fills the response.
    avoids : bool
        Whether obstacles of the planning scene are to be avoided.
    """

    timeout: float
    solve: Callable[[Sampler, float], None]
    avoids: bool = True


def prepare_samples(request: Any, response: Any, around: Surroundings, settings: IkServerSettings) -> Prepared:
    """Of `SampleIK`."""
    wanted = parse(request, around, settings)

    def solve(sampler: Sampler, left: float) -> None:
        deadline = time.perf_counter() + left
        with _refusing():
            samples = sampler.answer(replace(wanted, timeout=left))
        _check_count(len(samples), wanted, settings)
        fill(response, wanted, samples, deadline)

    return Prepared(wanted.timeout, solve)


def prepare_batch(request: Any, response: Any, around: Surroundings, settings: IkServerSettings) -> Prepared:
    """Of `SampleIKBatch`."""
    poses, wanted = parse_batch(request, around, settings)

    def solve(sampler: Sampler, left: float) -> None:
        deadline = time.perf_counter() + left
        with _refusing():
            answers = answer_batch(sampler, poses, replace(wanted, timeout=left))
        _check_count(len(answers.positions), wanted, settings)
        fill_batch(response, wanted, answers, deadline)

    return Prepared(wanted.timeout, solve)


def _check_count(n: int, wanted: SampleRequest, settings: IkServerSettings) -> None:
    """Refuse an answer of more configurations than are allowed, which only a separation makes known too late."""
    if n > settings.max_samples:
        raise RequestError(
            ErrorCode.INVALID_GOAL_CONSTRAINTS,
            f"separation {wanted.separation} takes {n} configurations, expected at most {settings.max_samples} "
            "(parameter max_samples)",
            n,
        )


def prepare_path(request: Any, response: Any, around: Surroundings, settings: IkServerSettings) -> Prepared:
    """Of `SampleIKPath`."""
    timeout = timeout_of(request.timeout, settings)
    deadline = around.deadline(timeout)
    poses = around.in_base(request.header, "poses") @ poses_of(request.poses, settings, deadline)
    random_seed = random_seed_of(request.random_seed)
    n = count_of(int(request.n_samples) or PATH_SAMPLES, settings.max_samples)
    options: dict[str, Any] = {
        "near": around.near(request.near),
        "largest_step": positive("largest_step", request.largest_step, PATH_STEP),
        "position_only": bool(request.position_only),
        "position_tolerance": positive(
            "position_tolerance", request.position_tolerance, settings.default_position_tolerance
        ),
        "orientation_tolerance": positive(
            "orientation_tolerance", request.orientation_tolerance, settings.default_orientation_tolerance
        ),
        "constraints": constraints_for(request, around.robot, settings.data, deadline),
    }

    def solve(sampler: Sampler, left: float) -> None:
        path = sample_path(sampler, poses, n, random_seed, timeout=left, **options)
        response.error_code, response.message = int(path.error_code), path.message
        response.joint_names, response.n = list(path.joint_names), len(path.positions)
        response.positions.frombytes(float64_bytes(path.positions))
        response.position_error.frombytes(float64_bytes(path.position_error))
        response.orientation_error.frombytes(float64_bytes(path.orientation_error))
        response.valid, response.examined = path.valid.tolist(), path.examined.tolist()
        response.largest_step = path.largest_step

    return Prepared(timeout, solve)


def prepare_nearest(request: Any, response: Any, around: Surroundings, settings: IkServerSettings) -> Prepared:
    """Of `GetPositionIK`, ours or MoveIt's."""
    state = request.ik_request.robot_state
    wanted = parse_nearest(request.ik_request, around, settings)

    def solve(sampler: Sampler, left: float) -> None:
        q, in_time = _nearest(sampler, wanted, left)
        late = "" if in_time or wanted.state is None else LATE
        fill_nearest(response, state, around.robot, q, "; ".join(filter(None, [wanted.remark, late])))

    return Prepared(wanted.timeout, solve, avoids=bool(request.ik_request.avoid_collisions))


def _nearest(sampler: Sampler, wanted: NearestRequest, left: float) -> tuple[np.ndarray, bool]:
    """The solution (dof,) of all alternatives that is nearest, and whether time sufficed for the search.

    `RequestError` where there is none.
    """
    deadline, in_time = time.perf_counter() + left, True
    solutions, failures = [], []
    for n_done, alternative in enumerate(wanted.alternatives):
        begun = time.perf_counter()
        if n_done and begun >= deadline:
            in_time = False
            break
        share = max(0.0, deadline - begun) / (len(wanted.alternatives) - n_done)
        found = sampler.answer(replace(alternative, timeout=share))
        in_time = in_time and time.perf_counter() < begun + share
        if found:
            solutions.append(found[0])
        else:
            code = ErrorCode.NO_IK_SOLUTION if found.error_code == ErrorCode.SUCCESS else found.error_code
            failures.append((code, found.message))
    if not solutions:
        telling = (ErrorCode.TIMED_OUT, ErrorCode.GOAL_IN_COLLISION, ErrorCode.NO_IK_SOLUTION)
        raise RequestError(*min(failures, key=lambda failure: telling.index(failure[0])))
    return min(solutions, key=lambda q: wanted.cost(sampler.robot, q)), in_time


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """What this sampler cannot be asked for, such as densities where there is no model, is the client's mistake."""
    try:
        yield
    except (ConfigurationError, ConstraintError) as error:
        raise RequestError(ErrorCode.INVALID_GOAL_CONSTRAINTS, str(error), error.value) from error


CALLS: dict[str, tuple[Any, Callable[[Any, Any, Surroundings, IkServerSettings], Prepared]]] = {
    "~/sample_ik": (SampleIK, prepare_samples),
    "~/sample_ik_batch": (SampleIKBatch, prepare_batch),
    "~/sample_ik_path": (SampleIKPath, prepare_path),
    "~/get_position_ik": (GetPositionIK, prepare_nearest),
}
"""Type of each service, and what understands its requests."""
if MoveItGetPositionIK is not None:
    CALLS["~/compute_ik"] = (MoveItGetPositionIK, prepare_nearest)


def budget_of(request: Any, settings: IkServerSettings) -> float:
    """Time that a request may take [s], before it is parsed; the default if it says nothing sensible."""
    if hasattr(request, "ik_request"):
        timeout = request.ik_request.timeout.sec + 1e-9 * request.ik_request.timeout.nanosec
    else:
        timeout = request.timeout
    return min(timeout, settings.max_timeout) if timeout > 0.0 else settings.default_timeout


def refuse(response: Any, code: ErrorCode, message: str) -> None:
    """Make it an answer without a solution."""
    if hasattr(response.error_code, "val"):
        put_code(response, code, message)
        return
    response.error_code, response.message, response.n = int(code), message, 0


def outcome_of(response: Any) -> tuple[int, str]:
    """Error code and message of an answer."""
    if hasattr(response.error_code, "val"):
        return int(response.error_code.val), str(getattr(response.error_code, "message", ""))
    return int(response.error_code), str(response.message)
