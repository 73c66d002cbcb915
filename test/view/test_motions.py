"""The tab draws motions for a context, with prescribed starts and ends. Joints are matched by name."""

import numpy as np
import pytest
from kinematics.descriptions import chain_urdf, joint
from motion.demonstrated import JOINTS, N_POINTS, positions_of, two_ways

from eim_ros.core.errors import ConfigurationError
from eim_ros.kinematics import Robot
from eim_ros.learning import EMConfig
from eim_ros.motion import Demonstrations, MotionPrior, MotionTraining
from eim_ros.view.motion_tab import MotionStudy

PLACE = '<origin xyz="0.4 0 0"/><axis xyz="0 0 1"/><limit lower="-3" upper="3" effort="1" velocity="1"/>'
ORDER = (2, 0, 1)  # index of each robot joint among the joints of the motions


def robot_of(names: tuple[str, ...]) -> Robot:
    joints = [joint(name, "revolute", f"l{i}", f"l{i + 1}", PLACE) for i, name in enumerate(names)]
    return Robot(chain_urdf(*joints))


ROBOT = robot_of(tuple(JOINTS[i] for i in ORDER))
DATA = two_ways(100, 0)


def fitted_prior() -> MotionPrior:
    return MotionTraining(learner=EMConfig(n_components=2, n_starts=2), seed=0).run(DATA).model


@pytest.fixture(scope="module")
def prior():
    return fitted_prior()


@pytest.fixture(scope="module")
def study(prior):
    return MotionStudy(ROBOT, prior, Demonstrations.from_data_set(DATA))


def test_demonstrations_are_in_the_order_of_the_robots_joints(study):
    shown = study.demonstrations
    np.testing.assert_allclose(shown.positions, positions_of(DATA)[:, :, ORDER], atol=1e-12)
    np.testing.assert_allclose(shown.tips[3, 7], ROBOT.fk(shown.positions[3, 7])[:3, 3], atol=1e-12)
    assert (shown.components == -1).all()
    assert 0.3 < shown.quantiles.mean() < 0.8  # about as likely as held-out data


def test_motions_end_and_begin_where_it_is_wished(study):
    start, end = np.array([0.02, -0.03, 0.05]), np.array([0.0, 1.1, -0.55])
    drawn = study.sample([1.0], 30, 0, start, end)
    deviation = 1e-3  # default of ViaPoint [rad]
    assert np.abs(drawn.positions[:, 0] - start).max() < 6 * deviation
    assert np.abs(drawn.positions[:, -1] - end).max() < 6 * deviation
    assert set(drawn.components) == {0, 1}  # both ways occur
    free = study.sample([1.0], 30, 0)
    assert np.abs(free.positions[:, 0] - start).max() > 6 * deviation
    assert free.log_evidence == 0.0 != drawn.log_evidence


def test_the_likeliest_end_is_the_goal_of_the_context(study):
    ends = np.array([[0.0, goal, -0.5 * goal] for goal in (0.6, 1.0, 1.4)])
    assert [int(np.argmax(study.end_log_prob([goal], ends))) for goal in (0.6, 1.0, 1.4)] == [0, 1, 2]


def test_between_two_points_a_motion_is_straight(study):
    drawn = study.sample([1.0], 2, 0)
    np.testing.assert_allclose(drawn.at(1, 0.0), drawn.positions[1, 0])
    np.testing.assert_allclose(drawn.at(1, 1.0), drawn.positions[1, -1])
    middle = 0.5 * (drawn.positions[1, 4] + drawn.positions[1, 5])
    np.testing.assert_allclose(drawn.at(1, 4.5 / (N_POINTS - 1)), middle, atol=1e-12)


def test_contexts_can_be_chosen_as_far_as_they_were_demonstrated(study, prior):
    ((name, low, high, step),) = study.context_ranges()
    goals = DATA.context[:, 0]
    assert name == "goal"
    assert low <= goals.min() < low + step and high - step < goals.max() <= high
    ((_, low, high, _),) = MotionStudy(ROBOT, prior).context_ranges()  # without data
    assert low < 0.5 < 1.5 < high


def test_another_robot_is_refused_with_the_joint_that_is_missing(prior):
    with pytest.raises(ConfigurationError, match="the robot has joints hook"):
        MotionStudy(robot_of(("shoulder", "elbow", "hook")), prior)
