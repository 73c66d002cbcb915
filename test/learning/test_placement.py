"""Learners run on the device of the generator, and do not mix its tensors with tensors of the CPU. No GPU is needed.

`elsewhere` simulates a GPU. It covers only calls of torch from Python, so it does not replace a run on a real GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from learning.elsewhere import CUDA, Elsewhere
from torch import Tensor

from eim_ros.core.errors import ConfigurationError
from eim_ros.learning import (
    EIM,
    EM,
    GMMVI,
    EIMConfig,
    ExponentialEM,
    FitResult,
    GMMVIConfig,
    MultipleCauseEM,
    RunOptions,
    TruncatedEM,
    random_start,
)
from eim_ros.learning.discrete import NoisyOr, PoissonFamily

SIZES = (1, 10, 100)
Fit = Callable[..., FitResult[Any]]  # arguments: number of components, generator, and options of the run
NEURAL = {"expert_kind": "neural", "gating_kind": "neural", "networks.layers": (4,), "networks.iterations": 2}
PLUG_IN, NETWORK = {"ratio.estimator": "plug-in"}, {"ratio.estimator": "network"}
SHORT = {  # minimum for one run of each step of a fit
    "ratio.initial_epochs": 2,
    "ratio.n_epochs": 1,
    "ratio.hidden_layers": (4,),
    "ratio.dropout": 0.1,
    "ratio.evidence": -1.0,
    "ratio.reference.iterations": 2,
    "ratio.reference.starts": 2,
    "ratio.reference.factors": (1.0, 2.0),
    "gradient_steps.n_steps": 2,
    "start.em_iterations": 2,
    "start.n_starts": 2,
    "m_step.n_samples": 20,
    "n_iterations": 2,
}
ADAPTED = {"adaptation.add_every": 1, "adaptation.delete_after": 1, "n_iterations": 3}


@pytest.fixture
def elsewhere() -> Any:
    with Elsewhere() as mode:
        yield mode


def data(n: int = 300, n_context: int = 1) -> tuple[Tensor, Tensor]:
    context = torch.linspace(-1.0, 1.0, n, dtype=torch.float64)[:, None].repeat(1, n_context)
    noise = torch.randn(n, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return context, torch.cat([torch.sin(3.0 * context.sum(1, keepdim=True)), -noise[:, :1]], 1) + 0.2 * noise


def quadratic(sample: Tensor) -> Tensor:
    return -0.5 * (sample**2).sum(-1)


def started(n: int) -> Any:
    """Return a fitted model on the CPU."""
    pairs = tuple(part.cpu() for part in data())
    return EM(n_components=n, n_iterations=0).fit(pairs).model


def eim(**settings: Any) -> Fit:
    return lambda n, generator, run=RunOptions(): EIM(n_components=n, **{**SHORT, **settings}).fit(
        data(), generator=generator, run=run
    )


def with_target(surrogate: str) -> Fit:
    config = EIMConfig.known_density(**{"n_iterations": 2, "start.em_iterations": 2, "m_step.surrogate": surrogate})
    return lambda n, generator, run=RunOptions(): EIM(config, target=lambda y, x: quadratic(x - y), n_components=n).fit(
        data(), generator=generator, run=run
    )


def gmmvi(config: GMMVIConfig | None = None) -> Fit:
    def fit(n: int, generator: torch.Generator, run: RunOptions = RunOptions()) -> FitResult[Any]:
        start = random_start(n_dims=2, n_components=n)  # most users create the start on the CPU
        return GMMVI(quadratic, config, n_iterations=3).fit(start=start, generator=generator, run=run)

    return fit


FITS: dict[str, Fit] = {
    "em": lambda n, generator, run=RunOptions(): EM(n_components=n, n_iterations=3).fit(
        data(), generator=generator, run=run
    ),
    "em, without contexts": lambda n, generator, run=RunOptions(): EM(n_components=n, n_iterations=3, n_starts=2).fit(
        data()[1], generator=generator, run=run
    ),
    "em, neural": lambda n, generator, run=RunOptions(): EM(n_components=n, n_iterations=2, **NEURAL).fit(
        data(), generator=generator, run=run
    ),
    "em, hard": lambda n, generator, run=RunOptions(): EM(n_components=n, n_iterations=2, hard=True).fit(
        data(), generator=generator, run=run
    ),
    "em, start on the CPU": lambda n, generator, run=RunOptions(): EM(n_iterations=2).fit(
        data(), started(n), generator=generator, run=run, validation_data=data()
    ),
    "eim": eim(),
    "eim, start on the CPU": lambda n, generator, run=RunOptions(): EIM(**SHORT).fit(
        data(), started(n), generator=generator, run=run
    ),
    "eim, natural gradient": eim(**{"m_step.gating.gradient": "natural"}, **NETWORK),
    "eim, refit": eim(**{"m_step.gating.update": "refit"}, **NETWORK),
    "eim, adapted": eim(**ADAPTED, **NETWORK),
    "eim, diagonal": eim(**{"m_step.covariance": "diagonal"}, **NETWORK),
    "eim, neural": eim(**NEURAL, **NETWORK),
    "eim, plug-in": eim(**PLUG_IN),
    "eim, network": eim(**NETWORK),
    "eim, residual": eim(**{"ratio.estimator": "residual"}),
    "eim, unstructured": eim(update="unstructured", **NETWORK),
    "eim, without contexts": lambda n, generator, run=RunOptions(): EIM(n_components=n, **SHORT).fit(
        data()[1], generator=generator, run=run
    ),
    "eim, target": with_target("gradient"),
    "eim, target without gradients": with_target("value"),
    "gmmvi": gmmvi(),
    "vips": gmmvi(GMMVIConfig.named("ZAMTRUX")),
}


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", FITS)
def test_learner_keeps_its_tensors_on_the_device(name: str, n: int, elsewhere: Elsewhere) -> None:
    found = FITS[name](n, torch.Generator("cuda").manual_seed(0))
    assert found.mixture_of_experts.device == CUDA


@pytest.mark.parametrize("name", ["em", "em, without contexts", "gmmvi", "vips"])
def test_values_read_from_the_device_do_not_grow_with_components(name: str) -> None:
    reads = []
    for n in (10, 100):
        with Elsewhere() as mode:
            FITS[name](n, torch.Generator("cuda").manual_seed(0))
            reads.append(mode.reads)
    assert 0 < reads[1] < 2 * reads[0]


RESUMED = ("em", "eim", "eim, neural", "eim, target", "gmmvi")


@pytest.mark.parametrize("name", RESUMED)
def test_resumed_fit_continues_on_the_device(name: str, elsewhere: Elsewhere, tmp_path: Path) -> None:
    whole = FITS[name](3, torch.Generator("cuda").manual_seed(0))
    saved = RunOptions(checkpoint=tmp_path / "run.safetensors", checkpoint_every=1, callbacks=[lambda *_: True])
    FITS[name](3, torch.Generator("cuda").manual_seed(0), saved)
    resumed = RunOptions(checkpoint=tmp_path / "run.safetensors", resume=True)
    found = FITS[name](3, torch.Generator("cuda").manual_seed(0), resumed)
    assert found.mixture_of_experts.device == CUDA and len(found.history.records) == len(whole.history.records) > 1


@pytest.mark.parametrize("learner", [EM, EIM])
def test_data_on_the_device_are_fitted_there_by_default(learner: Any, elsewhere: Elsewhere) -> None:
    settings = {"n_iterations": 1} if learner is EM else SHORT | NETWORK
    pairs = tuple(part.to("cuda") for part in data())
    assert learner(n_components=2, **settings).fit(pairs).mixture_of_experts.device == CUDA


def test_truncated_em_takes_data_of_the_device_and_runs_on_the_cpu(elsewhere: Elsewhere) -> None:
    sample = data()[1].to("cuda")
    found = TruncatedEM(n_components=20, dense_below=0, n_iterations=2).fit(sample, generator=torch.Generator("cuda"))
    assert found.mixture_of_experts.device.type == "cpu"


def test_learner_of_the_cpu_refuses_the_device_by_its_name(elsewhere: Elsewhere) -> None:
    sample = torch.ones(4, 3)
    start = NoisyOr.start(sample.double(), 2, torch.Generator().manual_seed(0))
    with pytest.raises(ConfigurationError, match="ExponentialEM runs on the CPU only"):
        ExponentialEM(PoissonFamily(), n_components=2).fit(sample, generator=torch.Generator("cuda"))
    with pytest.raises(ConfigurationError, match="MultipleCauseEM runs on the CPU only"):
        MultipleCauseEM().fit(sample, start, torch.Generator("cuda"))


def test_pretended_device_refuses_what_a_gpu_refuses(elsewhere: Elsewhere) -> None:
    there = torch.ones(3, 2, device="cuda")
    generator = torch.Generator("cuda").manual_seed(0)
    assert (there + 1.0).device == there.T.device == torch.rand(2, generator=generator, device="cuda").device == CUDA
    assert there.cpu().device.type == "cpu" and there.device == CUDA
    for wrong in (
        lambda: there + torch.ones(2),
        lambda: torch.cat([there, torch.ones(1, 2)]),
        lambda: torch.ones(3)[there[:, 0].long()],
        lambda: torch.rand(2, generator=generator),
        lambda: torch.nn.Linear(2, 1)(there),
    ):
        with pytest.raises(RuntimeError, match="Expected"):
            wrong()
    with pytest.raises(TypeError, match="numpy"):
        there.numpy()
