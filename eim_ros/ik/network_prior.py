"""Mixtures of experts whose gating or experts are networks, evaluated by torch for one pose."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch

from eim_ros.core.arrays import FloatArray
from eim_ros.learning.models import MixtureOfExperts
from eim_ros.solver import Experts


def network_evaluator(mixture: MixtureOfExperts) -> Callable[[FloatArray], tuple[FloatArray, FloatArray, Experts]]:
    """Return a function that evaluates the mixture at contexts (n_contexts, n_context).

    It returns the fields of a `ConditionalMixture`: log weights (n_contexts * n_experts,), an empty context, and the
    experts at these contexts.
    """
    prepared = mixture.to(device="cpu", dtype=torch.float64)

    def condition(contexts: FloatArray) -> tuple[FloatArray, FloatArray, Experts]:
        context = torch.from_numpy(np.ascontiguousarray(contexts, dtype=np.float64))
        with torch.no_grad():
            gate, gaussians = prepared.gating(context), prepared.experts(context)
            factors = gaussians.scale_tril.expand(*gaussians.mean.shape, gaussians.n_dims).flatten(0, 1)
        means = gaussians.mean.flatten(0, 1).numpy()
        experts = Experts(np.empty((*means.shape, 0)), means, factors.numpy(), prepared.n_components)
        log_weights = gate.numpy() - math.log(len(contexts))
        return log_weights.reshape(-1), np.empty((1, 0)), experts

    return condition
