"""Motion priors are trained on the requested device. `learning.elsewhere` simulates a GPU."""

from __future__ import annotations

import pytest
import torch
from learning.elsewhere import CUDA, Elsewhere
from motion.conftest import FAST_EIM
from motion.demonstrated import two_ways

from eim_ros.learning import EIMConfig, EMConfig
from eim_ros.motion import MotionTraining

LEARNERS = {
    "em": EMConfig(n_components=2, n_iterations=3),
    "eim": EIMConfig.from_mapping({"n_components": 2, **FAST_EIM}),
    "neural em": EMConfig(n_components=2, n_iterations=2, expert_kind="neural", gating_kind="neural"),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_motion_prior_is_trained_on_the_device_and_kept_on_the_cpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with Elsewhere():
        run = MotionTraining(learner=LEARNERS[name], device="cuda").run(two_ways(60, 0))
        assert run.result.mixture_of_experts.device == CUDA
        assert run.model.condition([1.0]).sample(5, torch.Generator().manual_seed(0)).positions.shape[0] == 5
