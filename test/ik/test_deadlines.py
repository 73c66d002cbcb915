"""A call that needs more time than its timeout ends in time, returns verified rows and claims nothing more.

No test measures time. Instead, a deadline has already passed, or the clock advances with each call.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from eim_ros.core.errors import ConstraintError
from eim_ros.ik import Completeness, Constraints, ErrorCode, LinkPosition, Sampler, Solutions, engine
from eim_ros.ik.constraints import AT_ONCE, LinkCheck
from eim_ros.ik.order import distinct_in_time, distinct_rows
from eim_ros.ik.problem import Problem
from eim_ros.ik.request import Covering, Proposals, Spread
from eim_ros.ik.setup import Setup
from eim_ros.ik.strategies import densities, find, restarts
from eim_ros.ik.strategies.manifold import Curves
from eim_ros.kinematics import Robot, Sphere, collision, pose_from

POSE = pose_from((0.4, 0.1, 0.5), (1.0, 0.0, 0.0, 0.0))
MEMORY = 2 << 30  # limit of the memory [byte]
COARSELY = 512  # number of solutions of a coarse set, see solver/search/curve_solutions.hpp


def with_revolutions(name: str, turns: int) -> Robot:
    """Return an arm whose joints may turn by this number of revolutions in each direction."""
    robot, limit = Robot(name), 2.0 * np.pi * turns - 1e-5
    words = [
        f'{word.partition("=")[0]}="{-limit if word.startswith("lower") else limit}"'
        if word.startswith(("lower=", "upper="))
        else word
        for word in robot.urdf.replace("/>", " />").split(" ")
    ]
    return Robot(" ".join(words), robot.tip_link, base=robot.base_link)


def assert_verified(robot: Robot, samples: Solutions, pose: np.ndarray = POSE) -> None:
    errors, valid = robot.verify(samples.q, pose)
    assert samples.valid.all() and valid.all()
    assert (errors <= 1e-6).all()


def test_shapes_that_are_not_ready_end_the_call_before_anything_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "find", lambda *_: pytest.fail("searched"))
    monkeypatch.setattr(collision, "check_time", refuse_obstacles)
    constraints = Constraints(obstacles=[Sphere((2.0, 0.0, 0.01 * i), 0.001) for i in range(5)])
    samples = Sampler("panda").with_constraints(constraints).sample(POSE, 10, seed=0)
    assert samples.error_code == ErrorCode.TIMED_OUT and len(samples) == 0
    assert samples.message == "timed out: not ready"


def refuse_obstacles(deadline: float, what: str, seconds: float = 0.0) -> None:
    if "obstacles" in what and deadline != np.inf:
        raise collision.OutOfTime("not ready")


def test_scene_beyond_a_limit_is_refused_by_every_call() -> None:
    arm = Sampler("panda").with_obstacles([Sphere((2.0, 0.0, 0.0), 0.001)] * 20_001)
    for call in (lambda: arm.sample(POSE), lambda: arm.sample_batch(POSE[None])):
        with pytest.raises(ConstraintError, match="20001 obstacles, but at most 20000 are allowed"):
            call()


def test_unchecked_rows_are_told_and_never_called_all_that_there_are() -> None:
    arm, constraints = Sampler("panda"), Constraints(self_collision=True)
    constraints.check(arm.robot)  # the shapes are ready
    samples = arm.with_constraints(constraints).sample(POSE, 500, timeout=0.0, diversity=1.0, seed=0)
    assert samples.error_code == ErrorCode.TIMED_OUT
    assert "there was no time to check" in samples.message
    assert samples.completeness is None or not samples.completeness.is_complete


def test_links_are_not_looked_at_after_the_deadline() -> None:
    robot = Robot("panda")
    check = LinkCheck(robot, [LinkPosition(robot.tip_link, [Sphere((0.0, 0.0, 0.0), 9.0)])])
    q = robot.random(3 * AT_ONCE, np.random.default_rng(0))
    assert check.satisfied(q).all() and check.n_unchecked == 0
    assert check.satisfied(q, 0.0).sum() == AT_ONCE
    assert check.n_unchecked == 2 * AT_ONCE and check.n_violating == 0


def test_constraints_of_links_are_limited() -> None:
    robot = Robot("panda")
    one = LinkPosition(robot.tip_link, [Sphere((0.0, 0.0, 0.0), 9.0)])
    with pytest.raises(ConstraintError, match="101 constraints on links, but at most 100"):
        LinkCheck(robot, [one] * 101)
    with pytest.raises(ConstraintError, match="1001 shapes, but at most 1000"):
        LinkPosition(robot.tip_link, [Sphere((0.0, 0.0, 0.0), 9.0)] * 1001)


def test_separation_is_not_said_to_be_met_when_time_is_up() -> None:
    robot = with_revolutions("panda", 1)
    samples = Sampler(robot).solve_all(POSE, 0.02, max_solutions=1_000_000, timeout=0.001, seed=0)
    assert samples.error_code == ErrorCode.TIMED_OUT and samples.message.startswith("timed out: ")
    assert len(samples) > 0 and samples.completeness is not None and not samples.completeness.is_complete
    assert_verified(robot, samples)


def curves_of(robot: Robot, pose: np.ndarray, n: int, **asked: Any) -> Curves:
    return Curves.of(Problem(Setup(robot, Constraints()), pose, False, Spread(n), seed=0, **asked))


def test_division_of_curves_ends_at_the_deadline_with_solutions_of_all_components() -> None:
    robot = Robot("iiwa14")
    found = curves_of(robot, robot.fk(np.full(7, 0.5)), 1_000_000)
    pool, in_time = found.even(0.0)
    assert not in_time and 0 < len(pool) <= COARSELY
    options = robot.chain, found.problem.task, found.problem.effort
    owners = np.array([
        found.motions.nearest(*options, q, q[None], robot.continuous, 1, 0, np.inf)[0][0]
        for q in pool.q
    ])  # fmt: skip
    assert np.abs(owners - pool.q).max() < 1e-3  # each solution is on a component, and each component has solutions
    assert len(pool) >= found.report.n_components
    assert robot.chain.verify(found.problem.task, pool.q)[1].all()
    everything, in_time = found.even(np.inf)
    assert in_time and len(everything) > len(pool)


def test_components_that_were_not_found_to_the_end_do_not_count_as_complete() -> None:
    robot = with_revolutions("panda", 1)
    aim = Covering(0.3, guarantee=Completeness())
    found = Curves.of(Problem(Setup(robot, Constraints()), POSE, False, aim, seed=0, deadline=0.0))
    assert not found.in_time and not found.report.is_complete
    assert found.report.missed_share > 0.002 or not found.report.traced.all()


@pytest.mark.filterwarnings("ignore::eim_ros.core.errors.RobotWarning")
def test_revolutions_are_enumerated_until_the_deadline() -> None:
    robot = with_revolutions("ur10e", 5)
    pose = robot.fk(np.full(6, 0.7))
    samples = Sampler(robot).sample(pose, 1_000_000, timeout=0.0, seed=0)
    assert samples.error_code == ErrorCode.TIMED_OUT
    assert 0 < len(samples) < 1_000_000 and samples.completeness is None
    assert_verified(robot, samples, pose)


def test_draws_are_as_many_as_there_is_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(densities, "DRAWN_AT_ONCE", 100)
    monkeypatch.setattr(densities, "with_grace", lambda deadline: deadline)
    robot = Robot("ur5e")
    samples = Sampler(robot).draw(robot.fk(np.full(6, 0.7)), 100_000, "uniform", timeout=0.0, seed=0)
    assert samples.error_code == ErrorCode.TIMED_OUT and len(samples) == 100
    assert samples.effective_sample_size == pytest.approx(100.0)
    assert np.isfinite(samples.log_prob).all()
    assert_verified(robot, samples, robot.fk(np.full(6, 0.7)))


def test_proposals_are_as_many_as_there_is_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarts, "PROPOSED_AT_ONCE", 64)
    loaded = Sampler.load("iiwa14_pose")
    setup, prior = Setup(loaded.robot, Constraints()), loaded._prior
    contexts = prior.contexts(POSE, False, loaded.robot, loaded.constraints, 0)
    model = prior.density(contexts).conditional
    for deadline, n in ((0.0, 64), (np.inf, 1000)):
        found = find(Problem(setup, POSE, False, Proposals(1000), conditional=model, seed=0, deadline=deadline))
        assert len(found.candidates) == n
        assert found.timed_out == (n < 1000)


def test_comparison_of_rows_ends_at_the_deadline() -> None:
    robot = Robot("panda")
    rows = robot.random(5000, np.random.default_rng(0))
    everything, is_complete = distinct_in_time(robot, rows, 0.01, np.inf)
    assert is_complete and np.array_equal(everything, distinct_rows(robot, rows, 0.01))
    some, is_complete = distinct_in_time(robot, rows, 0.01, 0.0)
    assert not is_complete and np.array_equal(some, everything[: len(some)]) and 0 < len(some) < 100


@pytest.mark.parametrize("constraints", [None, Constraints(self_collision=True)])
def test_poses_for_which_no_time_is_left_are_answered_together(constraints: Constraints | None) -> None:
    arm = Sampler("panda")
    if constraints is not None:
        constraints.check(arm.robot)  # the shapes are ready
    poses = np.repeat(POSE[None], 50_000, axis=0)
    for answers in (
        arm.with_constraints(constraints).sample_batch(poses, 4, timeout=0.0, seed=0),
        *arm.with_constraints(constraints).stream(poses[:5000], timeout=0.0, seed=0, n=4),
    ):
        assert (answers.error_codes == ErrorCode.TIMED_OUT).all() and not len(answers.q)
        assert answers.messages[-1] == "timed out: the search for this pose did not start"


SCENES = {
    "boxes": "[Box(pose_from(p), (0.01,) * 3) for p in rng.uniform(-2.0, 2.0, (20_000, 3)) + (2.6, 0.0, 0.0)]",
    "cloud": "[PointCloud(rng.uniform(-2.0, 2.0, (200_000, 3)) + (2.6, 0.0, 0.0), 0.005)]",
    "thinned": "[PointCloud(rng.uniform(-2.0, 2.0, (1_000_000, 3)) + (2.6, 0.0, 0.0), 0.005, resolution=0.1)]",
}
MAIN = """
import resource, numpy as np
from eim_ros.ik import Constraints, Sampler
from eim_ros.kinematics import Box, PointCloud, pose_from
rng, sampler = np.random.default_rng(0), Sampler("panda")
pose, obstacles = pose_from((0.4, 0.1, 0.5), (1.0, 0.0, 0.0, 0.0)), {obstacles}
for timeout in (0.01, 600.0):
    samples = sampler.with_obstacles(obstacles).sample(pose, 10, seed=0, timeout=timeout)
    print(samples.error_code.name, len(samples))
"""


@pytest.mark.parametrize("scene", SCENES)
def test_large_scenes_fit_into_two_gigabytes(scene: str) -> None:
    """The scenes have the largest allowed size. A call with a longer timeout reuses the work of earlier calls."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    done = subprocess.run(
        [sys.executable, "-c", MAIN.format(obstacles=SCENES[scene])], preexec_fn=limit, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split("\n")[:2] == ["TIMED_OUT 0", "SUCCESS 10"]


def test_nearest_of_components_that_were_not_all_found_is_no_success() -> None:
    robot = with_revolutions("panda", 1)
    samples = Sampler(robot).sample(POSE, 10, timeout=0.0, near=np.full(7, 3.0), seed=0)
    assert samples.error_code == ErrorCode.TIMED_OUT and len(samples) > 0
    assert_verified(robot, samples)
