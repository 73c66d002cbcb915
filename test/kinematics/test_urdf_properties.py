"""Random serial chains agree with pinocchio, and damaged URDFs never cause a crash."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kinematics.descriptions import ALL_TYPES, FOLLOWERS, chain_urdf, joint
from kinematics.oracle import Oracle

from eim_ros.core.errors import RobotError
from eim_ros.kinematics import Robot

# ignore warnings about limits of 0 or of hundreds of radians, which random limits may have
pytestmark = pytest.mark.filterwarnings("ignore::eim_ros.core.errors.RobotWarning")

ROUNDING = 1e-9  # rounding error of ten joints with links up to 2 m
length, angle = st.floats(-2.0, 2.0), st.floats(-4.0, 4.0)
KINDS = ("revolute", "continuous", "prismatic", "fixed")
SNIPPETS = ("", "<", ">", "/>", '"', "'", "&", "&lt;", "nan", "inf", "1e999", "-", " ", "\0", "é", "\U0001f916", "]]>")
ENTITY = '<!DOCTYPE a [<!ENTITY b "c">]>'
WORDS = ("mimic", "joint", "link", "robot", "${x}", "l0", "l1", "floating", "9" * 400, "<!--", ENTITY)


@dataclass(frozen=True)
class Chain:
    """URDF of a random chain, and its number of independent joints."""

    urdf: str
    n_moving: int


def words(values: tuple[float, ...]) -> str:
    return " ".join(map(repr, values))


@st.composite
def chains(draw: st.DrawFn) -> Chain:
    axis = st.tuples(length, length, length).filter(lambda values: np.linalg.norm(values) > 1e-3)
    joints, independent, leaders = [], [], []  # in pinocchio, no joint can mimic a continuous joint
    for i in range(draw(st.integers(1, 9))):
        kind = draw(st.sampled_from(KINDS)) if i else "revolute"
        xyz, rpy = draw(st.tuples(length, length, length)), draw(st.tuples(angle, angle, angle))
        lower, upper = sorted(draw(st.tuples(angle, angle)))
        extra = (
            f'<origin xyz="{words(xyz)}" rpy="{words(rpy)}"/><axis xyz="{words(draw(axis))}"/>'
            f'<limit lower="{lower!r}" upper="{upper!r}" effort="1" velocity="1"/>'
        )
        if kind in ("revolute", "prismatic") and leaders and draw(st.integers(0, 4)) == 0:
            followed, multiplier, offset = draw(st.sampled_from(leaders)), draw(length), draw(length)
            extra += f'<mimic joint="{followed}" multiplier="{multiplier!r}" offset="{offset!r}"/>'
        elif kind != "fixed":
            independent.append(f"j{i}")
            leaders += [] if kind == "continuous" else [f"j{i}"]
        joints.append(joint(f"j{i}", kind, f"l{i}", f"l{i + 1}", extra))
    return Chain(chain_urdf(*joints), len(independent))


@settings(max_examples=200)
@given(chains(), st.integers(0, 2**32 - 1))
def test_chain_moves_as_pinocchio_has_it(chain: Chain, seed: int) -> None:
    try:
        robot = Robot(chain.urdf)
    except RobotError as error:
        assert "no value of joint" in str(error)  # contradictory limits of a mimic joint
        return
    assert robot.dof == chain.n_moving
    oracle = Oracle(chain.urdf, robot)
    for q in robot.random(3, np.random.default_rng(seed)):
        np.testing.assert_allclose(robot.fk(q), oracle.forward(q), rtol=0, atol=ROUNDING)
        np.testing.assert_allclose(robot.jacobian(q), oracle.jacobian(q), rtol=0, atol=10 * ROUNDING)
    assert Robot(robot.urdf, robot.tip_link, base=robot.base_link).fingerprint == robot.fingerprint


@settings(max_examples=800)
@given(
    st.sampled_from([ALL_TYPES, FOLLOWERS]),
    st.lists(
        st.tuples(st.floats(0.0, 1.0), st.integers(0, 30), st.sampled_from(SNIPPETS + WORDS)), min_size=1, max_size=4
    ),
)
def test_damaged_description_is_a_robot_or_refused(text: str, edits: list[tuple[float, int, str]]) -> None:
    for place, n_removed, inserted in edits:
        start = int(place * len(text))
        text = text[:start] + inserted + text[start + n_removed :]
    try:
        robot = Robot("<" + text.lstrip("\ufeff \t\r\n<"))  # text without < at the start is the name of a file
    except RobotError as error:
        assert str(error)
        return
    assert np.isfinite(robot.fk(0.5 * (robot.lower + robot.upper))).all()
