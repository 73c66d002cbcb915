"""Models of arms are trained on the given device. `learning.elsewhere` simulates the GPU."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from ik.arms import arm_of
from ik.training.test_train import TRAININGS
from learning.elsewhere import Elsewhere

from eim_ros.ik import collect


@pytest.mark.parametrize("algorithm", TRAININGS)
def test_model_of_an_arm_is_trained_on_the_device(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with Elsewhere():
        run = dataclasses.replace(TRAININGS[algorithm], device="cuda").run(
            collect(arm_of("planar3"), 300, "position", 0)
        )
        expected = "cpu" if algorithm == "truncated-em" else "cuda"
        assert run.result.mixture_of_experts.device.type == expected
        assert run.model.mixture.device.type == "cpu"
