"""Results of learners do not depend on torch's default dtype."""

import pytest
import torch
from learning.models.random_models import generator_of, normal
from learning.toys import small_eim_config

from eim_ros.learning import EIMConfig, EMConfig
from eim_ros.learning.eim import EIM
from eim_ros.learning.em import EM

SMALL = {"n_components": 2, "n_iterations": 1}
TOLD = {
    "ratio.dropout": 0.2,
    "ratio.initial_epochs": 40,
    "ratio.learning_rate": 1e-2,
    "ratio.validation_share": 0.0,
}  # with these settings, no update is skipped
NEURAL = {"gating_kind": "neural", "expert_kind": "neural", "networks.layers": (4,)}
LEARNERS = {
    "residual": lambda: EIM(
        small_eim_config(**TOLD, **SMALL, **{"ratio.estimator": "residual", "ratio.hidden_layers": (8, 8)})
    ),
    "network": lambda: EIM(
        small_eim_config(**TOLD, **SMALL, **{"ratio.estimator": "network", "ratio.hidden_layers": (8,)})
    ),
    "neural": lambda: EIM(small_eim_config(**NEURAL, **TOLD, **SMALL, **{"ratio.estimator": "network"})),
    "EM": lambda: EM(EMConfig.from_mapping({**NEURAL, **SMALL})),
    "known density": lambda: EIM(EIMConfig.known_density(**SMALL), target=lambda y, x: -(x - y).square().sum(-1)),
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
        fit = LEARNERS[name]().fit(data, generator=generator_of(1))
        assert not fit.history.column("skipped")
        found[dtype] = fit.model.tensors()
    for key, value in found[torch.float32].items():
        assert torch.equal(found[torch.float64][key], value), key
