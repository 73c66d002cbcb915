"""Mixtures of linear experts get a line as context. EIM stays near new lines, but EM does not."""

import pytest
import torch

from eim_ros.planar import Expert, ExpertConfig, PlanarArm, line_task
from eim_ros.planar.line_experts import LEARNERS, fit_line_experts

ARM = PlanarArm(n_links=4)
FEW = ExpertConfig(moves_per_temperature=3, final_moves=30)
NEW_LINE = 2.25


def line(x):
    return line_task((x, -1.5), (x, 1.5))


@pytest.fixture(scope="module")
def fitted():
    generator = torch.Generator().manual_seed(0)
    places = (1.5, 2.0, 2.5, 3.0)
    q = torch.cat([Expert(ARM, line(x), FEW).draw(50, generator) for x in places])
    line_x = torch.tensor(places, dtype=torch.float64).repeat_interleave(50)
    return {
        learner: fit_line_experts(learner, ARM, line_x, q, 4, torch.Generator().manual_seed(1)) for learner in LEARNERS
    }


def distance(experts) -> float:
    tip = ARM.tip(experts.draw(NEW_LINE, 1000, torch.Generator().manual_seed(2)))
    return float(line(NEW_LINE).distance(tip).mean())


def test_eim_reaches_a_new_line_that_em_misses(fitted):
    em, eim = (distance(fitted[learner]) for learner in LEARNERS)
    assert eim < 0.5 * em
