"""Which strategies apply to which arm and call, in their order: the first final result is the answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eim_ros.ik import Completeness, Constraints, Sampler
from eim_ros.ik.problem import Problem
from eim_ros.ik.request import Aim, Covering, Draws, Proposals, Spread
from eim_ros.ik.strategies import STRATEGIES

CALLS: dict[str, Aim] = {
    "solve": Spread(1),
    "sample 100": Spread(100),
    "sample evenly": Spread(5, 1.0),
    "solve_all": Covering(0.3),
    "solve_all with a bound": Covering(0.3, guarantee=Completeness()),
    "draw": Draws(10),
    "propose": Proposals(10),
}
FREE_AXIS = {"tolerances": [0.0, 0.0, 0.0, 0.0, 0.0, np.inf]}
HELD = {"fixed": {"panda_joint7": 0.5}}
TASKS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "six joints": ("ur5e", {}, False),
    "six joints, free axis": ("ur5e", FREE_AXIS, False),
    "seven joints": ("panda", {}, False),
    "seven joints, one held": ("panda", HELD, False),
    "seven joints, position": ("panda", {}, True),
    "eight joints": ("fetch", {}, False),
}
C, M, S, P, R = "ClosedForm", "Manifold", "Slices", "RawProposals", "Restarts"
EXPECTED = {
    "six joints": [[C, R], [C, R], [C, R], [C, R], [C, R], [C, S, R], [P, R]],
    "six joints, free axis": [[R], [R], [R], [R], [R], [S, R], [P, R]],
    "seven joints": [[R], [M, R], [M, R], [M, R], [M, R], [M, S, R], [P, R]],
    "seven joints, one held": [[C, R], [C, R], [C, R], [C, R], [C, R], [C, S, R], [P, R]],
    "seven joints, position": [[R], [R], [R], [R], [R], [S, R], [P, R]],
    "eight joints": [[R], [R], [R], [R], [R], [S, R], [P, R]],
}


@pytest.mark.parametrize("task", TASKS)
def test_strategies_that_apply_come_in_order(task: str) -> None:
    name, constraints, position_only = TASKS[task]
    sampler = Sampler(name, constraints=Constraints(**constraints))
    pose = sampler.robot.fk(0.5 * (sampler.robot.lower + sampler.robot.upper) + 0.3)
    for (call, aim), expected in zip(CALLS.items(), EXPECTED[task], strict=True):
        problem = Problem(sampler._setup, pose, position_only, aim)
        assert [type(each).__name__ for each in STRATEGIES if each.applies(problem)] == expected, call
