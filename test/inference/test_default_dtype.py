"""Learners give the same whatever torch's default dtype is."""

import pytest
import torch
from distributions.random_models import generator_of, normal

from eim_ros.inference import EIM, EM, EIMConfig, EMConfig, KnownDensityEIM, KnownDensityEIMConfig

SMALL = {"n_components": 2, "n_iterations": 1}
LEARNERS = {
    "residual": lambda: EIM(EIMConfig(ratio="residual", hidden_layers=(8, 8), **SMALL)),
    "network": lambda: EIM(EIMConfig(ratio="network", hidden_layers=(8,), dropout=0.2, **SMALL)),
    "neural": lambda: EIM(EIMConfig(gating="neural", components="neural", parameter_layers=(4,), **SMALL)),
    "EM": lambda: EM(EMConfig(gating="neural", components="neural", parameter_layers=(4,), **SMALL)),
    "known density": lambda: KnownDensityEIM(lambda y, x: -(x - y).square().sum(-1), KnownDensityEIMConfig(**SMALL)),
}


@pytest.fixture
def restored():
    before = torch.get_default_dtype()
    yield
    torch.set_default_dtype(before)


@pytest.mark.parametrize("name", LEARNERS)
def test_default_dtype_of_torch_changes_nothing(name, restored):
    generator = generator_of(0)
    data = normal(generator, 60, 1), normal(generator, 60, 1)
    found = {}
    for dtype in (torch.float32, torch.float64):
        torch.set_default_dtype(dtype)
        found[dtype] = LEARNERS[name]().fit(data, generator=generator_of(1)).model.tensors()
    for key, value in found[torch.float32].items():
        assert torch.equal(found[torch.float64][key], value), key
