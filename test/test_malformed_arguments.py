"""With any argument, a public call works or raises an error of the package.

For calls of `kinematics` and of samplers, see `fuzz/fuzz_api.py` and test_fuzzed_calls.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import fuzz_api
import numpy as np
import pytest
import torch
from ik.arms import arm_of, broad_model, reachable_pose

from eim_ros.core.data_set import DataSet, load_data_set, save_data_set
from eim_ros.core.errors import EimError
from eim_ros.core.parallel import use_torch_threads
from eim_ros.ik import IKModel, Posture, Sampler, Training, collect, evaluate
from eim_ros.learning import EMConfig, ExponentialEM, FittedModel, RunOptions
from eim_ros.learning.discrete.causes import NoisyOr
from eim_ros.learning.discrete.families import PoissonFamily
from eim_ros.learning.eim import EIM
from eim_ros.learning.em import EM, TruncatedEM
from eim_ros.learning.gmmvi import GMMVI, GMMVIConfig
from eim_ros.learning.models import Gaussian, GaussianMixture, load_model
from eim_ros.motion import Basis, MotionConfig, MotionPrior, MotionTraining, TaskPoint, ViaPoint
from eim_ros.planar.arm import planar_urdf
from eim_ros.view import draw_fit

NONSENSE = {
    "None": None,
    "zero": 0,
    "minus one": -1,
    "huge": 10**30,
    "half": 0.5,
    "nan": float("nan"),
    "text": "abc",
    "bytes": b"abc",
    "names": ["a", "b"],
    "mapping": {"a": 1},
    "nested": {"a": [1, {"b": 2}]},
    "numbers": [1, 2],
    "nothing": [],
    "ragged": [[1], [1, 2]],
    "object": object(),
    "class": int,
    "matrix": np.zeros((2, 2)),
    "complex": np.zeros((3, 3), dtype=complex),
    "array of text": np.array(["a", "b"]),
    "tensor": torch.zeros(2, 3),
}
ROBOT = arm_of("planar3")
MODEL = broad_model(ROBOT, "position")
SAMPLER = Sampler(model=MODEL)
POSE = reachable_pose(ROBOT)
RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(30, 2))
PAIRS = collect(ROBOT, 30, "position", 0)
MIXTURE = GaussianMixture.from_covariances(
    torch.ones(2, dtype=torch.float64), torch.zeros(2, 2, dtype=torch.float64), torch.eye(2, dtype=torch.float64)
)
GAUSSIAN = Gaussian(torch.zeros(2, dtype=torch.float64), torch.eye(2, dtype=torch.float64))
QUICK = {"seed": 0, "timeout": 0.05}
FEW = EMConfig(n_components=2, n_iterations=2)
JOINT = ROBOT.joint_names[0]


def sampled(**options: Any) -> Any:
    return SAMPLER.sample(POSE, 2, **{**QUICK, **options})


def constrained(constraints: Any) -> Any:
    return SAMPLER.with_constraints(constraints).sample(POSE, 2, **QUICK)


CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "draw_fit": (draw_fit, {"fit": FittedModel.of(MIXTURE), "path": "fit.png", "data": POINTS}),
    "IKModel.load": (IKModel.load, {"path": "panda_position", "robot": None}),
    "collect": (
        collect,
        {"robot": ROBOT, "n_samples": 3, "context_kind": "position", "seed": 0, "solutions_per_pose": 0},
    ),
    "evaluate": (evaluate, {"model": MODEL, "data_set": PAIRS, "seed": 0}),
    "DataSet": (DataSet, {"context": POINTS, "sample": POINTS, "description": {}}),
    "load_data_set": (load_data_set, {"path": "none"}),
    "save_data_set": (lambda data_set: save_data_set("/dev/null", data_set), {"data_set": PAIRS}),
    "load_model": (load_model, {"path": "none"}),
    "Training": (lambda **given: Training(**given).run(PAIRS), {"learner": FEW, "seed": 0, "device": "cpu"}),
    "Training.run": (
        Training(FEW).run,
        {"data_set": PAIRS, "robot": None, "initial": None, "prior": None, "run": RunOptions()},
    ),
    "EM": (EM, {"config": FEW, "seed": 0, "n_components": 2}),
    "EM.fit": (
        EM(FEW).fit,
        {
            "data": POINTS,
            "start": None,
            "sample_weight": [1.0] * len(POINTS),
            "validation_data": POINTS,
            "generator": None,
            "run": RunOptions(),
        },
    ),
    "EM.fit of pairs": (lambda *given: EM(FEW).fit(given), {"context": POINTS, "sample": POINTS}),
    "TruncatedEM.fit": (
        TruncatedEM(n_components=3, n_iterations=2).fit,
        {"data": POINTS, "start": None, "generator": None},
    ),
    "EIM.fit, known density": (
        EIM(target=MIXTURE, n_components=2, n_iterations=1).fit,
        {"data": POINTS, "start": None, "generator": None},
    ),
    "EIM with an estimator": (lambda estimator: EIM(estimator=estimator), {"estimator": None}),
    "GMMVI": (lambda target, n_dims: GMMVI(target, n_dims=n_dims).fit(start=MIXTURE), {"target": MIXTURE, "n_dims": 2}),
    "GMMVI.fit": (GMMVI(MIXTURE, n_iterations=1).fit, {"data": None, "start": MIXTURE, "generator": None}),
    "GMMVIConfig.named": (GMMVIConfig.named, {"word": "SAMTRON"}),
    "ExponentialEM": (lambda family: ExponentialEM(family, n_components=2), {"family": PoissonFamily()}),
    "ExponentialEM.fit": (
        ExponentialEM(PoissonFamily(), n_components=2, n_iterations=2).fit,
        {"sample": np.ones((20, 2)), "initial": None, "generator": None},
    ),
    "RunOptions": (
        RunOptions,
        {"callbacks": (), "checkpoint": "none", "checkpoint_every": 3, "resume": False},
    ),
    "Gaussian": (Gaussian, {"mean": torch.zeros(2), "scale_tril": torch.eye(2)}),
    "Gaussian.log_prob": (GAUSSIAN.log_prob, {"sample": torch.zeros(3, 2)}),
    "Gaussian.sample": (GAUSSIAN.sample, {"sample_shape": 3, "generator": None}),
    "Gaussian.condition": (GAUSSIAN.condition, {"dims": [0], "values": torch.zeros(1)}),
    "GaussianMixture": (
        GaussianMixture,
        {"log_weights": MIXTURE.log_weights, "means": MIXTURE.means, "scale_trils": MIXTURE.scale_trils},
    ),
    "GaussianMixture.from_covariances": (
        GaussianMixture.from_covariances,
        {"weights": torch.ones(2), "means": torch.zeros(2, 2), "covariances": torch.eye(2)},
    ),
    "GaussianMixture.log_prob": (MIXTURE.log_prob, {"sample": torch.zeros(3, 2)}),
    "GaussianMixture.sample": (MIXTURE.sample, {"sample_shape": 3, "generator": None}),
    "GaussianMixture.condition": (MIXTURE.condition, {"dims": [0], "values": torch.zeros(1)}),
    "GaussianMixture.marginal": (MIXTURE.marginal, {"dims": [0]}),
    "GaussianMixture.product": (MIXTURE.product, {"other": GAUSSIAN}),
    "mixture of experts": (MODEL.mixture, {"context": torch.zeros(2, 3, dtype=torch.float64)}),
    "mixture of experts, samples": (
        MODEL.mixture.sample,
        {"context": torch.zeros(2, 3, dtype=torch.float64), "generator": None},
    ),
    "TaskPoint": (TaskPoint, {"distance": len, "tolerance": 0.1, "phase": 0.5}),
    "ViaPoint": (ViaPoint, {"phase": 0.5, "joint_names": ("a",), "positions": (0.0,), "standard_deviations": ()}),
    "Basis": (Basis, {"kind": "gaussian", "n_functions": 5, "width": 0.7}),
    "MotionPrior.load": (MotionPrior.load, {"path": "none"}),
    "MotionTraining": (
        MotionTraining,
        {"motion": MotionConfig(), "learner": EMConfig(), "seed": 0, "device": "cpu"},
    ),
    "MotionTraining.run": (MotionTraining(learner=EMConfig()).run, {"data_set": PAIRS}),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore")
def test_nonsense_is_refused_by_an_error_of_the_package(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # some values are valid names of checkpoints
    call, good = CALLS[name]
    others: list[str] = []
    for argument in good:
        for label, value in NONSENSE.items():
            given = {**good, argument: value}
            try:
                call(*given.values()) if name == "EM.fit of pairs" else call(**given)
            except EimError as error:
                assert str(error), (argument, label)
            except Exception as error:
                others.append(f"{argument} = {label}: {type(error).__name__}: {error}")
    assert not others, "\n".join(others)


@pytest.mark.parametrize("calls", [CALLS, fuzz_api.calls()], ids=["here", "fuzzed"])
def test_true_is_no_count(calls: dict[str, tuple[Callable[..., Any], dict[str, Any]]]) -> None:
    for call, good in calls.values():
        for argument in (name for name, value in good.items() if type(value) is int):
            with pytest.raises(EimError, match="True"):
                call(**{**good, argument: True})


def test_true_is_no_count_of_threads_links_or_causes() -> None:
    for call in (
        lambda: use_torch_threads(True),
        lambda: planar_urdf(True),
        lambda: NoisyOr.start(torch.ones(5, 2), True, torch.Generator()),
        lambda: GAUSSIAN.sample((3, True)),
    ):
        with pytest.raises(EimError, match="True"):
            call()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ROBOT.random(5, -1), "or a numpy Generator, got -1"),
        (lambda: EM(FEW).fit(POINTS, POINTS), "give contexts and samples as one pair"),
        (lambda: constrained({"tolerances": [0] * 6}), "constraints must be of type Constraints"),
        (lambda: Posture({JOINT: 0.1}, "heavy"), "the weights of a posture must map names to values, got 'heavy'"),
        (lambda: sampled(order={"density": "much"}), "the weight of order 'density' must be"),
        (lambda: Sampler("panda_pose"), "no included robot 'panda_pose'"),
    ],
)
def test_cure_is_told(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(EimError, match=words):
        call()
