"""For any arguments, a method of `Robot` raises an `EimError` or answers correctly. It never crashes."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from kinematics.descriptions import chain_urdf, joint

from eim_ros.core.errors import EimError, PoseError, RobotError
from eim_ros.kinematics import Robot, refine, spread

Call = Callable[..., Any]
PANDA = Robot("panda")
Q = 0.5 * (PANDA.lower + PANDA.upper)
ROWS = np.clip(Q + 0.1 * np.random.default_rng(0).standard_normal((20, 7)), PANDA.lower, PANDA.upper)
POSE = PANDA.fk(Q)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


# the tests replace the argument of these calls, configurations (n, 7) or a pose, by anything
OF_CONFIGURATIONS: dict[str, Call] = {
    "forward": PANDA.fk,
    "jacobian": PANDA.jacobian,
    "skeleton": PANDA.skeleton,
    "within_limits": PANDA.within_limits,
    "pose_errors": lambda q: PANDA.pose_errors(q, POSE),
    "verify": lambda q: PANDA.verify(q, POSE),
    "refine": lambda q: refine(PANDA, q, POSE),
    "spread": lambda q: spread(PANDA, q, POSE, 5, rng()),
}
OF_A_POSE: dict[str, Call] = {
    "pose_errors": lambda pose, **asked: PANDA.pose_errors(ROWS, pose, **asked),
    "verify": lambda pose, **asked: PANDA.verify(ROWS, pose, **asked),
    "refine": lambda pose, **asked: refine(PANDA, ROWS, pose, **asked),
    "spread": lambda pose, **asked: spread(PANDA, ROWS, pose, 5, rng(), **asked),
}
every_configuration_call = pytest.mark.parametrize("name", OF_CONFIGURATIONS)
every_pose_call = pytest.mark.parametrize("name", OF_A_POSE)

NO_ROWS = {
    "text": "q",
    "numbers as text": [["0"] * 7],
    "complex": ROWS.astype(complex),
    "one complex": [0j] * 7,
    "times": np.zeros((2, 7), dtype="datetime64[s]"),
    "records": np.zeros(2, dtype=[("a", float)]),
    "objects": np.full((2, 7), object()),
    "none": None,
    "a mapping": {"joint": 0.0},
    "ragged": [[0.0] * 7, [0.0] * 6],
    "too large for a float": [10**400] * 7,
    "too few joints": ROWS[:, :6],
    "too many joints": np.zeros((2, 8)),
    "a number": 0.0,
    "three axes": ROWS[None],
    "six numbers": Q[:6],
}
NO_POSES = {
    "not a number": np.full((4, 4), np.nan),
    "one not a number": np.where(np.arange(16).reshape(4, 4) == 5, np.nan, POSE),
    "infinite": np.where(np.arange(16).reshape(4, 4) == 3, np.inf, POSE),
    "minus infinite": np.where(np.arange(16).reshape(4, 4) == 11, -np.inf, POSE),
    "out of range": np.where(np.arange(16).reshape(4, 4) == 3, 1e200, POSE),
    "a mirror": np.diag([1.0, 1.0, -1.0, 1.0]),
    "sheared": POSE + 1e-3 * np.eye(4, k=1),
    "no last row": POSE[:3],
    "zeros": np.zeros((4, 4)),
    "transposed": POSE.T,
    "text": "pose",
    "numbers as text": POSE.astype(str),
    "complex": POSE.astype(complex),
    "objects": np.full((4, 4), object()),
    "ragged": [[1.0], [2.0, 3.0]],
    "none": None,
    "empty": np.empty((0, 4)),
}


@every_configuration_call
@pytest.mark.parametrize("rows", NO_ROWS.values(), ids=NO_ROWS)
def test_what_are_no_configurations_is_refused(name: str, rows: Any) -> None:
    with pytest.raises(RobotError, match="configurations"):
        OF_CONFIGURATIONS[name](rows)


@pytest.mark.parametrize("name", ["refine", "spread"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_to_be_moved_has_to_be_finite(name: str, value: float) -> None:
    for place in ((0, 0), (19, 6), (7, 3)):
        rows = ROWS.copy()
        rows[place] = value
        with pytest.raises(RobotError, match="must be finite"):
            OF_CONFIGURATIONS[name](rows)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_measured_is_not_valid_where_it_is_not_finite_and_other_rows_are_as_before(value: float) -> None:
    rows = ROWS.copy()
    rows[7, 3] = value
    others = np.arange(20) != 7
    errors, valid = PANDA.verify(rows, POSE, position_tolerance=1e3, orientation_tolerance=1e3)
    assert np.isnan(errors[:, 7]).all()
    assert np.array_equal(valid, others)
    assert not PANDA.within_limits(rows)[7]
    for method in (PANDA.fk, PANDA.jacobian, PANDA.skeleton):
        np.testing.assert_allclose(method(rows)[others], method(ROWS)[others], rtol=0, atol=1e-15)  # for rounding
        assert np.isnan(method(rows)[7]).any()


@every_configuration_call
@pytest.mark.parametrize(
    "form",
    [
        np.asfortranarray,
        lambda q: np.repeat(q, 3, axis=1)[:, ::3],
        lambda q: q[::-1].copy()[::-1],
        lambda q: q[:, ::-1].copy()[:, ::-1],
        lambda q: np.concatenate([q, q])[:20],
        lambda q: q.astype(">f8"),
        lambda q: q.astype(np.longdouble),
        lambda q: q.astype(object),
        lambda q: q.tolist(),
        lambda q: [[Fraction(value) for value in row] for row in q.tolist()],
        lambda q: np.frombuffer(b"\0" + q.tobytes(), dtype=np.uint8)[1:].view(np.float64).reshape(q.shape),
        lambda q: np.broadcast_to(q, (1, *q.shape))[0],
    ],
    ids=["fortran", "strided", "reversed rows", "reversed columns", "part", "big endian", "long double", "objects",
         "lists", "fractions", "unaligned and read-only", "broadcast"],
)  # fmt: skip
def test_any_memory_layout_gives_the_same_and_is_not_written_to(name: str, form: Call) -> None:
    given, call = form(ROWS), OF_CONFIGURATIONS[name]
    if isinstance(given, np.ndarray):
        given.flags.writeable = False
    ours, expected = call(given), call(ROWS.copy())
    for a, b in zip(_arrays(ours), _arrays(expected), strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.array_equal(np.array(given, dtype=float), ROWS)


def _arrays(answer: Any) -> list[np.ndarray]:
    if isinstance(answer, np.ndarray):
        return [answer]
    return list(answer) if isinstance(answer, tuple) else list(vars(answer).values())


@every_configuration_call
def test_no_configurations_give_none(name: str) -> None:
    for nothing in ([], np.empty((0, 7))):
        assert all(0 in array.shape for array in _arrays(OF_CONFIGURATIONS[name](nothing)))


@every_pose_call
@pytest.mark.parametrize("pose", NO_POSES.values(), ids=NO_POSES)
def test_what_is_no_pose_is_refused(name: str, pose: Any) -> None:
    with pytest.raises(PoseError, match="pose"):
        OF_A_POSE[name](pose)


NO_TOLERANCES = [
    {"tolerances": [0.0] * 5}, {"tolerances": [np.nan] * 6}, {"tolerances": [-1.0] * 6}, {"tolerances": "wide"},
    {"tolerances": [1j] * 6}, {"tolerances": np.zeros((6, 1))}, {"tolerances": ["0"] * 6},
]  # fmt: skip
NO_OPTIONS = [
    *({key: value} for key in ("position_tolerance", "orientation_tolerance")
      for value in (np.nan, -1.0, -np.inf, "x", None, 1j, [1e-6])),
    {"lower": PANDA.upper, "upper": PANDA.lower}, {"lower": np.full(7, np.nan)}, {"upper": np.full(7, np.nan)},
    {"lower": PANDA.lower - 1.0}, {"upper": PANDA.upper + 1.0}, {"lower": PANDA.lower[:6]}, {"upper": "high"},
    {"upper": np.inf}, {"lower": PANDA.lower.astype(complex)}, {"lower": PANDA.lower.astype(str)},
]  # fmt: skip


def assert_refused(name: str, asked: dict[str, Any]) -> None:
    with pytest.raises(EimError):
        OF_A_POSE[name](POSE, **asked)


@every_pose_call
@pytest.mark.parametrize("asked", NO_TOLERANCES, ids=str)
def test_tolerances_that_cannot_be_asked_are_refused(name: str, asked: dict[str, Any]) -> None:
    assert_refused(name, asked)


@pytest.mark.parametrize("name", sorted(OF_A_POSE.keys() - {"pose_errors"}))  # pose_errors has no options
@pytest.mark.parametrize("asked", NO_OPTIONS, ids=str)
def test_what_cannot_be_asked_is_refused(name: str, asked: dict[str, Any]) -> None:
    assert_refused(name, asked)


@pytest.mark.parametrize("count", [-1, 2**31, 2**63, -(2**31), 1.5, np.nan, np.inf, "3", None, [3], 3j])
@pytest.mark.parametrize("name", ["max_iterations", "patience", "n", "n configurations"])
def test_counts_out_of_their_bounds_are_refused(name: str, count: Any) -> None:
    if name == "n configurations" and count is None:
        return  # None is valid, and means one configuration
    with pytest.raises(RobotError, match="must be") as caught:
        if name == "n":
            spread(PANDA, ROWS, POSE, count, rng())
        elif name == "n configurations":
            PANDA.random(count, rng())
        else:
            refine(PANDA, ROWS, POSE, **{name: count})
    assert caught.value.value is count


def test_no_step_and_no_patience() -> None:
    still = refine(PANDA, ROWS, POSE, max_iterations=0)
    np.testing.assert_allclose(still.positions, ROWS, rtol=0.0, atol=1e-6)  # rounded to single precision
    assert not still.iterations.any()
    with pytest.raises(RobotError, match="at least 1"):
        refine(PANDA, ROWS, POSE, patience=0)


def test_counts_may_be_numpys_and_as_large_as_they_may() -> None:
    result = refine(PANDA, ROWS, POSE, max_iterations=np.uint8(60), patience=np.int64(1_000_000))
    assert result.converged.any()
    assert refine(PANDA, ROWS, POSE, max_iterations=1_000_000).converged.any()
    assert len(spread(PANDA, ROWS[:0], POSE, np.int16(5), rng())) == 0


@pytest.mark.parametrize("generator", [-1, True, 0.5, "seed", np.random, np.random.RandomState(0)], ids=str)
def test_what_is_no_generator_is_refused(generator: Any) -> None:
    for call in (
        lambda: spread(PANDA, ROWS, POSE, 5, generator),
        lambda: PANDA.random(5, generator),
    ):
        with pytest.raises(RobotError, match="numpy Generator"):
            call()


@pytest.mark.parametrize("step", [0.0, -0.4, np.nan, np.inf, "x", None, 1j])
def test_steps_of_continuation_have_to_be_positive_and_finite(step: Any) -> None:
    for asked in ({"step": step}, *([{"finest": step}] if step is not None else [])):
        with pytest.raises(RobotError, match="step|finest"):
            spread(PANDA, ROWS, POSE, 5, rng(), **asked)


def test_continuation_from_what_is_no_solution_return_no_wrong_one() -> None:
    elsewhere = PANDA.random(20, rng())
    for found in (spread(PANDA, elsewhere, POSE, 20, rng()), spread(PANDA, elsewhere, POSE, 20, rng(), finest=0.01)):
        assert PANDA.verify(found, POSE)[1].all()


def test_the_solver_takes_64_joints() -> None:
    n_joints = 64  # Robot refuses longer chains
    links = [joint(f"j{i}", "revolute", f"l{i}", f"l{i + 1}",
                   '<origin xyz="0 0 0.1"/><axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="1" velocity="1"/>')
             for i in range(n_joints)]  # fmt: skip
    robot = Robot(chain_urdf(*links))
    q = np.full(n_joints, 0.01)
    result = refine(robot, q + 0.01, robot.fk(q))
    assert result.converged.all()
    assert len(spread(robot, result.positions, robot.fk(q), 10, rng())) == 10
