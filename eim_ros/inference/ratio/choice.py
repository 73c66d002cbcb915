"""The density ratio estimator that the settings ask for."""

from __future__ import annotations

import torch

from eim_ros.distributions import MixtureOfExperts
from eim_ros.distributions.prepared_mixture import PreparedMixture
from eim_ros.inference.ratio.density_ratio import DensityRatio, RatioConfig
from eim_ros.inference.ratio.inputs import RatioInputs
from eim_ros.inference.ratio.network_ratio import NetworkRatio
from eim_ros.inference.ratio.plug_in_ratio import InputsFactor, KnownFactor, PlugInRatio, ReferenceFactor
from eim_ros.inference.ratio.reference_density import fit_reference, refined
from eim_ros.inference.training_data import Pairs

__all__ = ["data_density", "density_ratio", "smoothed"]

REFINEMENT = 50  # most iterations of EM by which a plug-in density takes in the data that chose it


def data_density(
    config: RatioConfig,
    n_components: int,
    inputs: RatioInputs,
    data: Pairs,
    generator: torch.Generator,
    first: MixtureOfExperts | None = None,
    most_components: int = 0,
) -> MixtureOfExperts | None:
    """Density fitted to the data for the estimator that the settings ask for; None if it needs none.

    Parameters
    ----------
    config : RatioConfig
    n_components : int
        Of the model whose ratio shall be estimated.
    inputs : RatioInputs
        Where they know a density, none is fitted; where they blur the contexts, it is fitted to those of iteration 0.
    data : Pairs
        In the order in which they will be given to the estimator: it holds out the last ones.
    generator : torch.Generator
    first : MixtureOfExperts, optional
        A candidate, fitted to the part of the data that is trained on.
    most_components : int
        To which the model may grow, if it does.
    """
    if config.ratio == "network" or inputs.known_log_density(data.context[:1], data.sample[:1], 0) is not None:
        return None
    blurred = smoothed(inputs, data, 0, generator)
    training, held_out = blurred[: config.n_training(len(data))], blurred[config.held_out(len(data))]
    candidate = first if blurred is data else None
    reference = fit_reference(config, n_components, training, held_out, generator, candidate, most_components)
    if config.ratio == "plug-in":  # no network has to be judged by data that the density has not seen
        reference = refined(reference, blurred, REFINEMENT)
    return reference


def density_ratio(
    config: RatioConfig,
    inputs: RatioInputs,
    reference: MixtureOfExperts | None,
    data: Pairs,
    generator: torch.Generator,
) -> DensityRatio:
    """Estimator of the ratio between the data and a model.

    Parameters
    ----------
    config : RatioConfig
    inputs : RatioInputs
    reference : MixtureOfExperts or None
        Density of the data; not needed where the inputs know one, or where a network learns all.
    data : Pairs
        Where the density will be evaluated, about.
    generator : torch.Generator
        Its device is where the estimator lives.
    """
    if config.ratio == "network":
        return NetworkRatio(config, inputs, generator, generator.device)
    known: KnownFactor = InputsFactor(inputs)
    if reference is not None:
        known = ReferenceFactor(reference, PreparedMixture(reference, data.context, data.sample))
    base = PlugInRatio(known, config)
    if config.ratio == "plug-in":
        return base
    return NetworkRatio(config, inputs, generator, generator.device, base)


def smoothed(inputs: RatioInputs, data: Pairs, iteration: int, generator: torch.Generator) -> Pairs:
    """Data with the noise on their contexts that the inputs ask for."""
    deviation = inputs.smoothing(iteration)
    if deviation is None:
        return data
    context = data.context
    noise = torch.randn(context.shape, generator=generator, dtype=context.dtype, device=context.device)
    return Pairs(context + deviation.to(context) * noise, data.sample, data.conditional)
