"""Motions drawn from a prior reach the goals of the tip that the prior contains."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from motion.demonstrated import JOINTS, scattered_ends, two_ways

from eim_ros.core.errors import ConfigurationError, DataError, EimError, ModelFileError
from eim_ros.core.files import write_tensor_file
from eim_ros.kinematics import Robot
from eim_ros.learning import EMConfig
from eim_ros.motion import Demonstrations, MotionDistribution, MotionPrior, MotionTraining, TipGoal, ViaPoint, blended
from eim_ros.motion.prior import MOTION_KIND, MOTION_SCHEMA, stored_prior

NAMES = ("joint_3", "joint_1", "joint_2")  # joints of the motions, in another order than the robot's
ROBOT = Robot("planar3")
LINE = TipGoal("x", 2.4, tolerance=0.02)


@pytest.fixture(scope="module")
def free() -> MotionPrior:
    return MotionTraining(learner=EMConfig(n_components=1)).run(scattered_ends(60, NAMES)).model


def tips(given: MotionDistribution, row: int = -1) -> np.ndarray:
    """Draw 100 motions, and return the positions (100, 3) of the tip at one point of each motion."""
    drawn = given.sample(100, torch.Generator().manual_seed(0)).positions[:, row]
    return np.asarray(ROBOT.fk(drawn[:, [NAMES.index(name) for name in ROBOT.joint_names]])[:, :3, 3])


def test_draws_reach_the_goal_of_the_prior_also_after_it_was_stored(free: MotionPrior, tmp_path: Path) -> None:
    assert np.median(np.abs(tips(free.condition([1.0]))[:, 0] - 2.4)) > 0.1
    free.with_goals(ROBOT, LINE).save(tmp_path / "prior")
    prior = MotionPrior.load(tmp_path / "prior")
    assert prior.goals == (LINE,)
    given = prior.condition([1.0])
    assert np.abs(tips(given)[:, 0] - 2.4).max() <= 0.02
    assert 0.0 < given.acceptance_rate < 0.5


def test_context_contains_the_value_of_a_goal(free: MotionPrior) -> None:
    prior = free.with_goals(ROBOT, TipGoal("y", "goal", tolerance=0.03))
    for y in (0.6, 0.9):
        assert np.abs(tips(prior.condition([y]))[:, 1] - y).max() <= 0.03


def test_goals_of_a_request_replace_those_of_the_prior(free: MotionPrior) -> None:
    prior = free.with_goals(ROBOT, LINE)
    other = tips(prior.condition([1.0], goals=[TipGoal("y", 0.4)]))
    assert np.abs(other[:, 1] - 0.4).max() <= 0.05
    assert np.abs(other[:, 0] - 2.4).max() > 0.02
    np.testing.assert_array_equal(tips(prior.condition([1.0], goals=())), tips(free.condition([1.0])))
    halfway = prior.condition([1.0], goals=[TipGoal("y", 0.3, phase=0.5)])
    at_half = halfway.sample(50, torch.Generator().manual_seed(0), 41).positions[:, 20]
    order = [NAMES.index(name) for name in ROBOT.joint_names]
    assert np.abs(ROBOT.fk(at_half[:, order])[:, 1, 3] - 0.3).max() <= 0.05


def test_configuration_at_the_end_replaces_a_goal_there(free: MotionPrior) -> None:
    end = ViaPoint(1.0, NAMES, (1.1, -0.5, 0.1))
    given = free.with_goals(ROBOT, LINE).condition([1.0], [end])
    assert given.tasks == ()
    one_joint = free.with_goals(ROBOT, LINE).condition([1.0], [ViaPoint(1.0, NAMES[:1], (1.1,))])
    assert len(one_joint.tasks) == 1


def test_blend_keeps_the_goals_of_the_prior_that_is_active(free: MotionPrior) -> None:
    first = free.condition([1.0]).reaching(*free.with_goals(ROBOT, LINE).condition([1.0]).tasks)
    start = free.with_goals(ROBOT, TipGoal("y", 0.0, 0.4, phase=0.0)).condition([1.0])
    assert len(blended(first, free.condition([0.7])).tasks) == 0  # the second prior determines the end
    assert len(blended(start, first).tasks) == 2


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("w", 1.0), "axis of a goal must be x, y or z, got 'w'"),
        (("xy", 1.0), "axis of a goal must be x, y or z"),
        (("x", float("nan")), "value of a goal must be a number or a name"),
        (("x", ""), "value of a goal must be a number or a name"),
        (("x", 1.0, 0.0), "tolerance of a task must be positive"),
        (("x", 1.0, 0.1, 1.5), "phase of a task must be from 0 to 1"),
    ],
)
def test_bad_goal_is_refused_with_its_cause(arguments: tuple, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        TipGoal(*arguments)


@pytest.mark.parametrize("word", ["", "x", "x=", "w=1", "x=1:much", "x=1:-1", "x=nan"])
def test_bad_word_is_refused_with_the_form(word: str) -> None:
    with pytest.raises(ConfigurationError, match="a goal must be AXIS=VALUE or AXIS=VALUE:TOLERANCE"):
        TipGoal.parse(word)


def test_goals_that_do_not_fit_the_prior_are_refused(free: MotionPrior) -> None:
    with pytest.raises(ConfigurationError, match="need a robot, which this prior does not contain"):
        free.condition([1.0], goals=[LINE])
    with pytest.raises(DataError, match="robot 'planar5' has joint_1"):
        free.with_goals(Robot("planar5"), LINE)
    with pytest.raises(
        DataError, match=r"is gaol, which is not in the context; the context has goal.*did you mean goal"
    ):
        free.with_goals(ROBOT, TipGoal("x", "gaol"))


def test_goal_that_few_demonstrations_reach_is_refused() -> None:
    motions = Demonstrations.from_data_set(scattered_ends(60, NAMES))
    TipGoal("x", 2.5, tolerance=1.0).check_demonstrated(ROBOT, motions)
    TipGoal("y", "goal", tolerance=2.0).check_demonstrated(ROBOT, motions)
    with pytest.raises(DataError, match=r"^0 of 60 demonstrations are within 0.05 m of x=-2 at phase 1"):
        TipGoal("x", -2.0).check_demonstrated(ROBOT, motions)


def test_stored_robot_cannot_name_a_file(free: MotionPrior, tmp_path: Path) -> None:
    tensors, document = stored_prior(free.with_goals(ROBOT, LINE))
    document["robot"]["urdf"] = "planar3"
    write_tensor_file(tmp_path / "prior", tensors, document, kind=MOTION_KIND, schema=MOTION_SCHEMA)
    with pytest.raises(ModelFileError, match="URDF is not XML"):
        MotionPrior.load(tmp_path / "prior")


def test_joints_of_other_names_have_no_goals() -> None:
    prior = MotionTraining(learner=EMConfig(n_components=1)).run(two_ways(40, 0)).model
    with pytest.raises(EimError, match=f"motions have joints {', '.join(JOINTS)}"):
        prior.with_goals(ROBOT, LINE)
