"""The services of `ik_server`: parsing, solving and answering requests.

~/sample_ik        distinct configurations for each pose
~/solve_all_ik     all configurations, with a report on completeness
~/draw_ik          random draws
~/follow_ik        one configuration for each pose of a path
~/solve_nearest_ik the configuration nearest to each pose, also out of reach
~/get_position_ik  the configuration nearest to a state; our type with the fields of MoveIt's GetPositionIK
~/compute_ik       the same with MoveIt's own type, if moveit_msgs is installed
~/get_cartesian_path      a path along straight lines; our type with the fields of MoveIt's GetCartesianPath
~/compute_cartesian_path  the same with MoveIt's own type, if moveit_msgs is installed

The executor's thread only receives requests. This thread answers BUSY if too many requests are waiting. Therefore, no
request is dropped silently. Every request is answered exactly once, even if it is waiting or being solved when the node
stops.
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

from eim_ros.core.errors import ConfigurationError, ConstraintError, JointStateError, PoseError, shortened
from eim_ros.core.parallel import usable_cores
from eim_ros.ik import Constraints, ErrorCode, Sampler, Solutions
from eim_ros.ik.nearest_pose import checked_priority
from eim_ros.kinematics import Robot
from eim_ros.nodes.common.delivery import DELIVERIES
from eim_ros.nodes.common.interfaces import (
    DrawIK,
    FollowIK,
    GetCartesianPath,
    GetPositionIK,
    MoveItGetCartesianPath,
    MoveItGetPositionIK,
    SampleIK,
    SolveAllIK,
    SolveNearestIK,
)
from eim_ros.nodes.common.messages import seconds
from eim_ros.nodes.common.node import AnswerCounters
from eim_ros.nodes.common.service import (
    PendingResponse,
    RequestPool,
    create_async_service,
    reason_of,
    receive_unread,
)
from eim_ros.nodes.ik_server import messages
from eim_ros.nodes.ik_server.messages import FrameNotKnownYet, RequestContext, RequestError, invalid
from eim_ros.nodes.ik_server.moveit import LinesRequest, NearestRequest, parse_lines, parse_nearest
from eim_ros.nodes.ik_server.planning_scene import SceneConditions
from eim_ros.nodes.settings import IkServerSettings

FOR_PART = 0.4  # share of the time that is reserved for the longest start of a path that cannot be followed to its end
N_CANDIDATES = 48  # number of solutions for a pose of a path
MAX_SPACING = 0.3  # [rad] or [m]; see `solve_all`
DENSITIES = ("uniform", "model", "posture", "proposal")
_LONGEST_REFUSAL = 0.2  # time to refuse requests that are unread at the shutdown [s]
_SHORT = 0.005  # time that the executor's thread waits for the response to a single request [s]
_PERIOD = 0.005  # time between two searches for a transform [s]


@dataclass(frozen=True)
class Parsed:
    """A valid request."""

    timeout: float  # time that the client allows [s]
    # Function of the sampler, the planning scene (or None) and the remaining time [s]. It fills the response.
    solve: Callable[[Sampler, SceneConditions | None, float], None]


@dataclass(frozen=True)
class _Targets:
    """Common fields of requests for several poses."""

    poses: np.ndarray
    constraints: Constraints
    seed: int | None
    timeout: float

    @classmethod
    def of(cls, request: Any, context: RequestContext, settings: IkServerSettings) -> _Targets:
        timeout = messages.timeout_of(request.timeout, settings)
        deadline = context.deadline(timeout)
        poses = context.in_base(request.header, "poses") @ messages.poses_of(request.poses, settings, deadline)
        constraints = messages.constraints_for(request.constraints, context.robot, settings, deadline)
        return cls(poses, constraints, messages.seed_of(request.seed), timeout)

    def answered(
        self, operation: Callable[..., Solutions], sampler: Sampler, left: float, **arguments: Any
    ) -> Solutions:
        """Apply an operation of `Sampler` to all poses, and return the answers."""
        if len(self.poses) == 1:
            return operation(sampler, self.poses[0], seed=self.seed, timeout=left, **arguments)
        blocks = sampler.stream(self.poses, operation, seed=self.seed, timeout=left, **arguments)
        return Solutions.concatenate(blocks)

    def parsed(
        self,
        response: Any,
        answer: Callable[[Sampler, float], Solutions],
        wants_log_prob: bool,
        unless_indifferent: bool = False,
    ) -> Parsed:
        """Return a parsed request. `answer` computes its answers, given a sampler with all constraints and a time [s].

        With `unless_indifferent`, log densities are also computed if the model has a preference. Other models do not
        affect such an answer, and the computation of their densities can take as long as the solution.
        """

        def solve(sampler: Sampler, scene: SceneConditions | None, left: float) -> None:
            deadline = time.perf_counter() + left
            with _refusing():
                solutions = answer(_constrained(sampler, self.constraints, scene), left)
            is_asked = wants_log_prob or (unless_indifferent and sampler.has_preference)
            messages.fill(response.solutions, solutions, deadline, is_asked)

        return Parsed(self.timeout, solve)


def parse_sample(request: Any, response: Any, context: RequestContext, settings: IkServerSettings) -> Parsed:
    """Parse a `SampleIK` request."""
    targets = _Targets.of(request, context, settings)
    n = messages.count_of("n_samples", request.n_samples, len(targets.poses), settings.max_samples)
    near, posture = context.near(request.near), messages.posture_of(request, context.robot)
    order, diversity = messages.order_of(request), float(request.diversity)
    if not diversity <= 1.0:
        raise invalid(f"diversity is {diversity}, expected 0 to 1, or a negative number for the default", diversity)
    arguments: dict[str, Any] = {"n": n, "near": near, "order": order}
    arguments["diversity"] = diversity if diversity >= 0.0 else None

    def answer(sampler: Sampler, left: float) -> Solutions:
        if len(targets.poses) > 1 and posture is None:
            return sampler.sample_batch(targets.poses, seed=targets.seed, timeout=left, **arguments)
        return targets.answered(Sampler.sample, sampler, left, posture=posture, **arguments)

    return targets.parsed(response, answer, order is not None or (n > 1 and diversity >= 0.0), n > 1)


def parse_solve_all(request: Any, response: Any, context: RequestContext, settings: IkServerSettings) -> Parsed:
    """Parse a `SolveAllIK` request."""
    targets = _Targets.of(request, context, settings)
    n_poses, most = len(targets.poses), settings.max_samples
    arguments: dict[str, Any] = {
        "max_spacing": messages.positive("max_spacing", request.max_spacing, MAX_SPACING),
        "guarantee": messages.guarantee_of(request.guarantee),
        "near": context.near(request.near),
        "order": messages.order_of(request),
        "max_solutions": messages.count_of("max_solutions", request.max_solutions or most // n_poses, n_poses, most),
    }
    answer = partial(targets.answered, Sampler.solve_all, **arguments)
    return targets.parsed(response, answer, arguments["order"] is not None, True)


def parse_draw(request: Any, response: Any, context: RequestContext, settings: IkServerSettings) -> Parsed:
    """Parse a `DrawIK` request."""
    targets = _Targets.of(request, context, settings)
    n = messages.count_of("n_samples", request.n_samples, len(targets.poses), settings.max_samples)
    density, posture = str(request.density) or "uniform", messages.posture_of(request, context.robot)
    guarantee = messages.guarantee_of(request.guarantee)
    if density not in DENSITIES:
        raise invalid(f"density is {density!r}, expected {', '.join(DENSITIES)}", density)
    if (density == "posture") != (posture is not None):
        raise invalid("density 'posture' needs a posture, and other densities must not have a posture", density)
    if density == "proposal" and guarantee is not None:
        raise invalid("density 'proposal' cannot give a guarantee: set guarantee.kind to NONE", density)
    arguments: dict[str, Any] = {
        "n": n,
        "density": density if posture is None else posture,
        "temperature": messages.positive("temperature", request.temperature, 1.0),
        "guarantee": guarantee,
    }

    def answer(sampler: Sampler, left: float) -> Solutions:
        if density != "proposal":
            return targets.answered(Sampler.draw, sampler, left, **arguments)
        seeds = [None if targets.seed is None else targets.seed + i for i in range(len(targets.poses))]
        drawn = [sampler.propose(pose, n, seed=seed) for pose, seed in zip(targets.poses, seeds, strict=True)]
        return Solutions.concatenate(drawn)

    return targets.parsed(response, answer, True)


def parse_follow(request: Any, response: Any, context: RequestContext, settings: IkServerSettings) -> Parsed:
    """Parse a `FollowIK` request."""
    targets = _Targets.of(request, context, settings)
    n = messages.count_of("n_candidates", int(request.n_candidates) or N_CANDIDATES, 1, settings.max_samples)
    near, steps, times = context.near(request.near), list(request.max_step), list(request.times) or None
    if len(steps) not in (0, 1, context.robot.dof):
        raise invalid(f"max_step has {len(steps)} values, expected one value, or one for each joint", len(steps))

    def solve(sampler: Sampler, scene: SceneConditions | None, left: float) -> None:
        with _refusing():
            path = _constrained(sampler, targets.constraints, scene).follow(
                targets.poses,
                near,
                max_step=steps if len(steps) > 1 else steps[0] if steps else None,
                times=times,
                n_candidates=n,
                seed=targets.seed,
                timeout=left,
            )
        messages.fill_path(response, path)
        if path:
            stamps = messages.stamps_of(path.q, near, context.robot.velocity_limits) if times is None else times
            messages.fill_trajectory(response.trajectory, context.robot, path.q, stamps)

    return Parsed(targets.timeout, solve)


def parse_solve_nearest(request: Any, response: Any, context: RequestContext, settings: IkServerSettings) -> Parsed:
    """Parse a `SolveNearestIK` request."""
    targets = _Targets.of(request, context, settings)
    word, weights = str(request.priority), list(request.weights)
    if word and weights:
        raise invalid("a request must not have both a priority and weights: leave one of them empty", word)
    priority: Any = tuple(weights) if weights else word or "position"
    with _refusing():
        checked_priority(priority)

    def solve(sampler: Sampler, scene: SceneConditions | None, left: float) -> None:
        deadline = time.perf_counter() + left
        with _refusing():
            constrained = _constrained(sampler, targets.constraints, scene)
            found = [
                constrained.solve_nearest_pose(
                    pose,
                    priority,
                    seed=None if targets.seed is None else targets.seed + i,
                    timeout=max(deadline - time.perf_counter(), 0.0) / (len(targets.poses) - i),
                )
                for i, pose in enumerate(targets.poses)
            ]
        messages.fill_nearest_poses(response, found)

    return Parsed(targets.timeout, solve)


def parse_get_position(request: Any, response: Any, context: RequestContext, settings: IkServerSettings) -> Parsed:
    """Parse a `GetPositionIK` request, ours or MoveIt's."""
    state = request.ik_request.robot_state
    wanted = parse_nearest(request.ik_request, context, settings)
    avoids = bool(request.ik_request.avoid_collisions)

    def solve(sampler: Sampler, scene: SceneConditions | None, left: float) -> None:
        with _refusing():
            q, in_time = _nearest(sampler, wanted, scene if avoids else None, left)
        late = (
            "" if in_time or not wanted.near else "timed out: there may be a nearer solution; request a longer timeout"
        )
        messages.fill_nearest(response, state, context.robot, q, "; ".join(filter(None, [wanted.remark, late])))

    return Parsed(wanted.timeout, solve)


def parse_cartesian_path(request: Any, response: Any, context: RequestContext, settings: IkServerSettings) -> Parsed:
    """Parse a `GetCartesianPath` request, ours or MoveIt's."""
    wanted, robot = parse_lines(request, context, settings), context.robot
    avoids = bool(request.avoid_collisions)

    def solve(sampler: Sampler, scene: SceneConditions | None, left: float) -> None:
        with _refusing():
            rows, code, message = _longest(sampler, wanted, scene if avoids else None, left)
        messages.put_state(response.start_state, request.start_state, dict(wanted.state))
        path = np.concatenate([wanted.start[None], rows])
        stamps = messages.stamps_of(path, None, wanted.velocities)
        messages.fill_trajectory(response.solution.joint_trajectory, robot, path, stamps)
        response.fraction = len(rows) / len(wanted.poses)
        remark = "; ".join(filter(None, [message, wanted.remark]))
        messages.put_code(response, ErrorCode.SUCCESS if len(rows) else code, remark)

    return Parsed(settings.default_timeout, solve)


def _longest(
    sampler: Sampler, wanted: LinesRequest, scene: SceneConditions | None, left: float
) -> tuple[np.ndarray, ErrorCode, str]:
    """Return the longest path without jumps (n, dof) along the first poses, and the reason if it ends early."""
    deadline = time.perf_counter() + left
    best = np.empty((0, sampler.robot.dof)), ErrorCode.NO_IK_SOLUTION, ""
    for n_done, constraints in enumerate(wanted.alternatives):
        share = max(deadline - time.perf_counter(), 0.0) / (len(wanted.alternatives) - n_done)
        follow = partial(
            _constrained(sampler, constraints, scene).follow, near=wanted.start, max_step=wanted.max_steps, seed=0
        )
        path = follow(wanted.poses, timeout=(1.0 - FOR_PART) * share)
        part = path
        if path.n_reached and not path:
            part = follow(wanted.poses[: path.n_reached], timeout=FOR_PART * share)
        ends = [*np.flatnonzero(~part.valid), *np.asarray(part.jumps), wanted.n_before_jump(part.q)]
        rows = part.q[: int(min(ends))]
        if not n_done or len(rows) > len(best[0]):
            message = (
                path.message if not path else "" if len(rows) == len(part.q) else "the next step exceeds jump_threshold"
            )
            best = rows, path.error_code, message
        if len(rows) == len(wanted.poses):
            break
    return best


def _nearest(
    sampler: Sampler, wanted: NearestRequest, scene: SceneConditions | None, left: float
) -> tuple[np.ndarray, bool]:
    """Return the nearest solution (dof,) of all alternatives, and whether the search ended in time.

    `RequestError` is raised if there is no solution.
    """
    deadline, in_time = time.perf_counter() + left, True
    found, failures = [], []
    for n_done, constraints in enumerate(wanted.alternatives):
        begun = time.perf_counter()
        if n_done and begun >= deadline:
            in_time = False
            break
        share = max(0.0, deadline - begun) / (len(wanted.alternatives) - n_done)
        solution = _constrained(sampler, constraints, scene).solve(
            wanted.pose, wanted.near or None, seed=0, timeout=share
        )
        in_time = in_time and time.perf_counter() < begun + share
        if solution:
            found.append(solution.q[0])
        else:
            failures.append((solution.error_code, solution.message))
    if not found:
        telling = (ErrorCode.TIMED_OUT, ErrorCode.GOAL_IN_COLLISION, ErrorCode.NO_IK_SOLUTION)
        raise RequestError(*min(failures, key=lambda failure: telling.index(failure[0])))
    return min(found, key=lambda q: wanted.cost(sampler.robot, q)), in_time


def _constrained(sampler: Sampler, constraints: Constraints, scene: SceneConditions | None) -> Sampler:
    """Return a sampler with these constraints that also avoids the obstacles of the planning scene."""
    if scene:
        constraints = replace(
            constraints,
            obstacles=(*constraints.obstacles, *scene.obstacles),
            allowed_collisions=(*constraints.allowed_collisions, *scene.allowed_collisions),
        )
    return sampler.with_constraints(constraints)


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """Convert errors of a request to a `RequestError` with an error code."""
    try:
        yield
    except JointStateError as error:
        raise RequestError(ErrorCode.INVALID_ROBOT_STATE, str(error), error.value) from error
    except (ConfigurationError, ConstraintError, PoseError) as error:
        raise invalid(str(error), error.value) from error


Parse: TypeAlias = Callable[[Any, Any, RequestContext, IkServerSettings], Parsed]

SERVICES: dict[str, tuple[Any, Parse]] = {
    "~/sample_ik": (SampleIK, parse_sample),
    "~/solve_all_ik": (SolveAllIK, parse_solve_all),
    "~/draw_ik": (DrawIK, parse_draw),
    "~/follow_ik": (FollowIK, parse_follow),
    "~/solve_nearest_ik": (SolveNearestIK, parse_solve_nearest),
    "~/get_position_ik": (GetPositionIK, parse_get_position),
    "~/get_cartesian_path": (GetCartesianPath, parse_cartesian_path),
}
"""Type of each service, and the function that parses its requests."""
if MoveItGetPositionIK is not None:
    SERVICES["~/compute_ik"] = (MoveItGetPositionIK, parse_get_position)
if MoveItGetCartesianPath is not None:
    SERVICES["~/compute_cartesian_path"] = (MoveItGetCartesianPath, parse_cartesian_path)


def budget_of(request: Any, settings: IkServerSettings) -> float:
    """Return the timeout [s] of a request that is not parsed yet, or the default if the timeout is not positive."""
    if hasattr(request, "ik_request"):
        timeout = seconds(request.ik_request.timeout)
    else:
        timeout = getattr(request, "timeout", 0.0)
    return min(timeout, settings.max_timeout) if timeout > 0.0 else settings.default_timeout


@dataclass(frozen=True, eq=False)
class _Call:
    """A request, its time budget [s], and the function that parses it."""

    parse: Parse
    pending: PendingResponse
    budget: float


@dataclass(frozen=True, eq=False)
class _FrameWait:
    """A request that waits for a transform, and the end of the wait as a time of `time.monotonic` [s]."""

    call: _Call
    context: RequestContext
    until: float


class Handlers:
    """The services that need a sampler.

    The callables return the current parameters, the active sampler, the context of a request for a robot, and the
    planning scene (or None). The second callable raises `RequestError` if there is no active sampler.
    """

    def __init__(
        self,
        node: Node,
        settings: Callable[[], IkServerSettings],
        sampler: Callable[[], Sampler],
        context: Callable[[Robot], RequestContext],
        scene: Callable[[], SceneConditions | None],
    ) -> None:
        self._node = node
        self._settings = settings
        self._sampler, self._scene = sampler, scene
        self._context = context
        self._counters = AnswerCounters()
        self._unanswered: dict[int, _Call] = {}  # the keys are the identities of the pending responses
        self._lock, self._closing = threading.Lock(), threading.Event()
        n_threads, size = settings().threads or usable_cores(), settings().queue_size
        self._pool: RequestPool[_Call] = RequestPool(self._serve, self._refuse_at_end, n_threads, size)
        self._frame_waits: RequestPool[_FrameWait] = RequestPool(
            self._wait_for_frame, lambda wait: self._refuse_at_end(wait.call), n_threads=1, size=size
        )
        self._services = [
            create_async_service(node, service_type, name, partial(self._receive, parse))
            for name, (service_type, parse) in SERVICES.items()
        ]

    def facts(self) -> dict[str, str]:
        """Return the counts of requests for `/diagnostics`."""
        n_open = self._pool.n_open + self._frame_waits.n_open
        n_dropped = str(DELIVERIES.n_dropped)
        return {
            "requests open": str(n_open),
            "answers to clients that no longer existed": n_dropped,
            **self._counters.facts(),
        }

    def stop(self, timeout: float) -> bool:
        """Answer all open requests. Return False if a request is still being solved after `timeout` [s]."""
        self._closing.set()
        self._frame_waits.close(_LONGEST_REFUSAL)
        idle = self._pool.close(timeout)
        with self._lock:
            unsolved = [*self._unanswered.values()]
            self._unanswered.clear()
        for call in unsolved:
            call.pending.response = type(call.pending.response)()  # the worker may still write to the old response
            self._refuse_at_end(call)
        receive_unread(self._services, _LONGEST_REFUSAL)
        return idle

    def _receive(self, parse: Parse, pending: PendingResponse) -> None:
        """Queue a request. The executor's thread calls this function.

        If there is only one request, the thread waits a few milliseconds for the response. Without this wait, both
        threads would compete for the interpreter, and most round trips would take longer.
        """
        future = self._offer(_Call(parse, pending, budget_of(pending.request, self._settings())))
        if future is not None and self._pool.n_open == 1:
            with contextlib.suppress(concurrent.futures.TimeoutError, concurrent.futures.CancelledError):
                future.result(_SHORT)

    def _offer(self, call: _Call) -> concurrent.futures.Future[None] | None:
        future = self._pool.offer(call, call.budget)
        if future is None and self._closing.is_set():
            self._refuse_at_end(call)
        elif future is None:
            message = f"{self._pool.n_open} requests are already waiting (parameter queue_size): try again later"
            self._refuse(call, ErrorCode.BUSY, message)
        return future

    def _serve(self, call: _Call) -> None:
        """Solve a request and always answer it. A worker thread calls this function."""
        pending = call.pending
        if self._closing.is_set():
            self._refuse_at_end(call)
            return
        if not pending.is_awaited():
            pending.drop()
            return
        with self._lock:
            self._unanswered[id(pending)] = call
        response, reason = pending.response, ""
        try:
            if (wait := self._solve(call, response)) is not None:
                with self._lock:
                    self._unanswered.pop(id(pending), None)
                if self._frame_waits.offer(wait) is None:
                    self._refuse(call, ErrorCode.BUSY, "too many requests are waiting for transforms: try again later")
                return
        except RequestError as error:
            reason = str(error)
            messages.put_code(response, error.code, reason)
        except Exception as error:
            response = type(response)()  # the old response may be incomplete
            reason = reason_of(error)
            messages.put_code(response, ErrorCode.FAILURE, reason)
        with self._lock:
            if self._unanswered.pop(id(pending), None) is None:  # `stop` has already answered this request
                return
        pending.response = response
        self._answer(pending, reason)

    def _solve(self, call: _Call, response: Any) -> _FrameWait | None:
        """Fill the response. If a missing transform may become known, return a wait for this transform instead."""
        pending, settings = call.pending, self._settings()
        sampler = self._sampler()
        if hasattr(pending.request, "constraints"):
            sampler = messages.with_tip_and_tool(sampler, pending.request.constraints)
        context = replace(self._context(sampler.robot), arrival=pending.arrival)
        try:
            parsed = call.parse(pending.request, response, context, settings)
        except FrameNotKnownYet:
            until = pending.arrival + settings.transform_timeout
            if time.monotonic() >= until:
                raise
            return _FrameWait(call, context, until)
        waited = time.monotonic() - pending.arrival
        if waited >= parsed.timeout:
            raise RequestError(
                ErrorCode.TIMED_OUT,
                f"the timeout of {parsed.timeout} s passed while other requests were served: request a longer timeout",
            )
        parsed.solve(sampler, self._scene(), parsed.timeout - waited)
        return None

    def _wait_for_frame(self, wait: _FrameWait) -> None:
        """Queue a request again as soon as its transform is known or its wait has ended."""
        while time.monotonic() < wait.until and not wait.context.are_known and not self._closing.wait(_PERIOD):
            pass
        self._offer(wait.call)

    def _refuse_at_end(self, call: _Call) -> None:
        self._refuse(call, ErrorCode.FAILURE, f"{self._node.get_name()} was shut down before the request was solved")

    def _refuse(self, call: _Call, code: ErrorCode, message: str) -> None:
        messages.put_code(call.pending.response, code, message)
        self._answer(call.pending, message)

    def _answer(self, pending: PendingResponse, reason: str = "") -> None:
        """Send and count the response, and log it if it is not a success.

        `reason` is logged if the response has no message, as in older releases of MoveIt.
        """
        elapsed = time.monotonic() - pending.arrival
        answer = getattr(pending.response, "solutions", pending.response)
        if hasattr(answer, "elapsed"):
            answer.elapsed = elapsed
        outcome = messages.error_code_of(pending.response)
        code, message = int(outcome.val), str(getattr(outcome, "message", "")) or reason
        pending.send()
        self._counters.count(code, elapsed)
        if code != ErrorCode.SUCCESS:
            text = shortened(f"{ErrorCode(code).name}: {message}")
            self._node.get_logger().warning(text, throttle_duration_sec=1.0)
