"""Motion priors that are fitted once per session to demonstrations of two ways."""

from __future__ import annotations

import pytest
from motion.demonstrated import two_ways

from eim_ros.learning import EIMConfig, EMConfig
from eim_ros.motion import MotionPrior, MotionTraining

FAST_EIM = {"ratio.hidden_layers": (16,), "ratio.initial_epochs": 3, "n_iterations": 5, "start.n_starts": 8}
FAST_EIM |= {"ratio.reference.factors": (1.0,), "ratio.reference.starts": 1, "ratio.reference.iterations": 20}


@pytest.fixture(scope="session")
def prior() -> MotionPrior:
    """Prior fitted by EM, with a context."""
    return MotionTraining(learner=EMConfig(n_components=2, n_starts=4), seed=0).run(two_ways(200, 0)).model


@pytest.fixture(scope="session")
def eim_prior() -> MotionPrior:
    """Prior fitted by EIM, with a context."""
    config = EIMConfig.from_mapping({"n_components": 2, **FAST_EIM})
    return MotionTraining(learner=config, seed=0).run(two_ways(200, 0)).model


@pytest.fixture(scope="session")
def plain_prior() -> MotionPrior:
    """Prior fitted by EM, without a context."""
    config = EMConfig(n_components=2, n_starts=4)
    return MotionTraining(learner=config, seed=0).run(two_ways(200, 0, context=False)).model
