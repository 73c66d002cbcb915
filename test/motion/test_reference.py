"""The start and the known density of motions find both ways, although whitened coordinates hide the ways."""

from __future__ import annotations

import torch
from motion.demonstrated import two_ways

from eim_ros.motion import Basis, Demonstrations, Representation
from eim_ros.motion.representation import LatentSpace
from eim_ros.motion.training import ReferenceInputs, start_of_ways


def coordinates(n: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return contexts, weights, latent coordinates and sides (n,) of motions of two ways."""
    motions = Demonstrations.from_data_set(two_ways(n, 0))
    representation = Representation(Basis(), motions.joint_names, motions.positions.shape[1])
    weights = torch.from_numpy(representation.weights(motions.positions))
    latent = LatentSpace.from_weights(weights, 0.999, 10, 1e-3)
    context = torch.from_numpy(motions.context)
    side = torch.from_numpy(motions.positions[:, 20, 2]) > 0.0
    return (context - 1.0) / 0.3, weights, latent.coordinates(weights)[:, : latent.n_latent], side


def test_start_has_an_expert_for_each_way_though_goals_differ_more() -> None:
    context, weights, sample, side = coordinates(100)
    start = start_of_ways(context, weights, sample, 2, 1e-6, torch.Generator().manual_seed(0))
    component = start.log_responsibilities(context, sample).argmax(-1)
    assert bool((component == side).all() or (component != side).all())


def test_inputs_know_the_density_and_its_gradient() -> None:
    from eim_ros.learning.ratio import StandardisedInputs
    from eim_ros.learning.ratio.plug_in import InputsFactor

    context, weights, sample, _ = coordinates(20)
    density = start_of_ways(context, weights, sample, 2, 1e-6, torch.Generator().manual_seed(0))
    standardised = StandardisedInputs.from_data(context, sample)
    inputs = ReferenceInputs(standardised.center, standardised.scale, density)
    known = InputsFactor(inputs)
    torch.testing.assert_close(known.log_density(context, sample, 0), density.log_prob(context, sample))
    torch.testing.assert_close(known.score(context, sample, 0), density.score(context, sample))
    assert inputs(context, sample, 0).shape == (20, inputs.n_inputs)
    assert inputs.smoothing(3) is None
