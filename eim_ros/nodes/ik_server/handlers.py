"""The services of `ik_server` that need its sampler: what each asks, and how it is answered.

~/sample_ik        many configurations for one pose
~/sample_ik_batch  many configurations for each of several poses
~/sample_ik_path   one configuration for each pose of a path
~/get_position_ik  one configuration, the nearest to a state; our type in the shape of MoveIt's GetPositionIK
~/compute_ik       the same by MoveIt's own type, where moveit_msgs is installed

The way of a request through `ik_server`: received, queued, solved by a worker thread, answered and counted.

The executor's thread only receives requests. It answers BUSY if too many wait, so no request is dropped silently. Every
request is answered exactly once, also those that wait or are being solved when the node ends.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from rclpy.node import Node

from eim_ros.core.errors import ConfigurationError, ConstraintError
from eim_ros.core.parallel import usable_cores
from eim_ros.ik import ErrorCode, Sampler
from eim_ros.ik.batch import answer_batch
from eim_ros.ik.paths import follow_path
from eim_ros.ik.request import SampleOptions, SampleRequest
from eim_ros.kinematics import Robot
from eim_ros.kinematics.poses import check_poses
from eim_ros.nodes.common.interfaces import GetPositionIK, MoveItGetPositionIK, SampleIK, SampleIKBatch, SampleIKPath
from eim_ros.nodes.common.messages import float64_bytes
from eim_ros.nodes.common.node import AnswerCounters
from eim_ros.nodes.common.service import Exchange, RequestPool, create_deferred_service, reason_of, send
from eim_ros.nodes.ik_server.moveit import NearestRequest, parse_nearest
from eim_ros.nodes.ik_server.requests import (
    FrameNotKnownYet,
    RequestError,
    Surroundings,
    constraints_for,
    count_of,
    parse,
    parse_batch,
    poses_of,
    positive,
    random_seed_of,
    reaching,
    timeout_of,
)
from eim_ros.nodes.ik_server.responses import fill, fill_batch, fill_nearest, put_code
from eim_ros.nodes.ik_server.settings import IkServerSettings

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
    max_step = positive("largest_step", request.largest_step, PATH_STEP)
    options: SampleOptions = {
        "near": around.near(request.near),
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
        began, wanted = time.perf_counter(), check_poses(poses)
        asked = SampleRequest(wanted[0], n, random_seed, timeout=left, **options)
        path = follow_path(sampler, wanted, asked, max_step, began)
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


_LINGER = 0.3  # [s] for clients to read the last answers, which are lost when the service is destroyed
_SHORT = 0.005  # [s] that the executor's thread leaves the interpreter to the only request there is
_PERIOD = 0.005  # [s] between two looks for a transform

Prepare: TypeAlias = Callable[[Any, Any, Surroundings, IkServerSettings], Prepared]


@dataclass(frozen=True, eq=False)
class _Call:
    """A request, its time budget [s], and the function that parses it."""

    prepare: Prepare
    exchange: Exchange
    budget: float


@dataclass(frozen=True, eq=False)
class _FrameWait:
    """A request that waits for a transform until a time of `time.monotonic` [s]."""

    call: _Call
    around: Surroundings
    until: float


class Serving:
    """The services that need a sampler.

    Parameters
    ----------
    node : Node
        Node that offers the services.
    settings : callable
        Returns the present values of the parameters.
    sampler : callable
        Returns the sampler that serves, or raises `RequestError` while there is none.
    around : callable
        Returns what is known of the surroundings of a robot.
    among : callable
        Returns the sampler among the obstacles of the planning scene, which a request that avoids collisions avoids in
        addition to its own; may raise, too.
    """

    def __init__(
        self,
        node: Node,
        settings: Callable[[], IkServerSettings],
        sampler: Callable[[], Sampler],
        around: Callable[[Robot], Surroundings],
        among: Callable[[Sampler], Sampler],
    ) -> None:
        self._node = node
        self._settings = settings
        self._sampler, self._among = sampler, among
        self._around = around
        self._counters = AnswerCounters()
        self._unanswered: dict[int, _Call] = {}  # being solved, by the identity of the exchange
        self._lock, self._closing = threading.Lock(), threading.Event()
        n_threads, size = settings().threads or usable_cores(), settings().queue_size
        self._pool: RequestPool[_Call] = RequestPool(self._serve, self._refuse_at_end, n_threads, size)
        self._frame_waits: RequestPool[_FrameWait] = RequestPool(
            self._wait_for_frame, lambda wait: self._refuse_at_end(wait.call), n_threads=1, size=size
        )
        for name, (service_type, prepare) in CALLS.items():
            create_deferred_service(node, service_type, name, partial(self._receive, prepare))

    def facts(self) -> dict[str, str]:
        """Counts for `/diagnostics`."""
        n_open = self._pool.n_open + self._frame_waits.n_open
        return {"requests open": str(n_open), **self._counters.facts()}

    def stop(self, timeout: float) -> bool:
        """Answer all open requests; return False if one is still being solved after `timeout` [s]."""
        has_open = bool(self._pool.n_open or self._frame_waits.n_open)
        self._closing.set()
        self._frame_waits.close(timeout)
        idle = self._pool.close(timeout)
        with self._lock:
            unsolved = [*self._unanswered.values()]
            self._unanswered.clear()
        for call in unsolved:
            call.exchange.response = type(call.exchange.response)()  # the worker may still write to the other one
            self._refuse_at_end(call)
        if has_open:
            time.sleep(_LINGER)
        return idle

    def _receive(self, prepare: Prepare, exchange: Exchange) -> None:
        """Queue a request; on the executor's thread.

        While a request is the only one, this thread waits a few milliseconds for its answer: otherwise both threads
        compete for the interpreter, which makes most round trips longer.
        """
        future = self._offer(_Call(prepare, exchange, budget_of(exchange.request, self._settings())))
        if future is not None and self._pool.n_open == 1:
            with contextlib.suppress(concurrent.futures.TimeoutError, concurrent.futures.CancelledError):
                future.result(_SHORT)

    def _offer(self, call: _Call) -> concurrent.futures.Future[None] | None:
        future = self._pool.offer(call, call.budget)
        if future is None:
            message = f"{self._pool.n_open} requests are waiting (parameter queue_size): try again later"
            self._refuse(call, ErrorCode.BUSY, message)
        return future

    def _serve(self, call: _Call) -> None:
        """Solve and answer a request, whatever happens; on a worker thread."""
        exchange = call.exchange
        with self._lock:
            self._unanswered[id(exchange)] = call
        response = exchange.response
        try:
            if (wait := self._solve(call, response)) is not None:
                with self._lock:
                    self._unanswered.pop(id(exchange), None)
                if self._frame_waits.offer(wait) is None:
                    self._refuse(call, ErrorCode.BUSY, "too many requests wait for transforms: try again later")
                return
        except RequestError as error:
            refuse(response, error.code, str(error))
        except Exception as error:
            response = type(response)()  # it may be half filled
            refuse(response, ErrorCode.FAILURE, reason_of(error))
        with self._lock:
            if self._unanswered.pop(id(exchange), None) is None:  # `stop` has answered it
                return
        exchange.response = response
        self._answer(exchange)

    def _solve(self, call: _Call, response: Any) -> _FrameWait | None:
        """Fill the response, or say which transform is missing that may still come."""
        exchange, settings = call.exchange, self._settings()
        sampler = reaching(self._sampler(), exchange.request)
        around = replace(self._around(sampler.robot), arrival=exchange.arrival)
        try:
            prepared = call.prepare(exchange.request, response, around, settings)
        except FrameNotKnownYet:
            until = exchange.arrival + settings.transform_timeout
            if time.monotonic() >= until:
                raise
            return _FrameWait(call, around, until)
        waited = time.monotonic() - exchange.arrival
        if waited >= prepared.timeout:
            raise RequestError(ErrorCode.TIMED_OUT, f"timeout {prepared.timeout} s passed while waiting behind others")
        prepared.solve(self._among(sampler) if prepared.avoids else sampler, prepared.timeout - waited)
        return None

    def _wait_for_frame(self, wait: _FrameWait) -> None:
        """Queue a request again when its transform is known, or its time is up."""
        while time.monotonic() < wait.until and not wait.around.are_known and not self._closing.wait(_PERIOD):
            pass
        self._offer(wait.call)

    def _refuse_at_end(self, call: _Call) -> None:
        self._refuse(call, ErrorCode.FAILURE, f"{self._node.get_name()} was ended before this was solved")

    def _refuse(self, call: _Call, code: ErrorCode, message: str) -> None:
        refuse(call.exchange.response, code, message)
        self._answer(call.exchange)

    def _answer(self, exchange: Exchange) -> None:
        """Send the response, count it, log anything but success."""
        elapsed = time.monotonic() - exchange.arrival
        if hasattr(exchange.response, "elapsed"):
            exchange.response.elapsed = elapsed
        code, message = outcome_of(exchange.response)
        send(exchange, self._node)
        self._counters.count(code, elapsed)
        if code != ErrorCode.SUCCESS:
            text = f"{ErrorCode(code).name}: {message}"
            self._node.get_logger().warning(text, throttle_duration_sec=1.0)
