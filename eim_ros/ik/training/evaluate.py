"""How good a model is before any refinement: errors of its raw samples, limits, entropies, likelihood (thesis 6.4)."""

from __future__ import annotations

import numpy as np
import torch

from eim_ros.data import DataSet
from eim_ros.errors import DataError
from eim_ros.ik.model import IKModel
from eim_ros.ik.training.collect import context_kind_of, robot_of
from eim_ros.kinematics import pose_from_context
from eim_ros.numerics.arguments import checked_whole, expect

__all__ = ["QUANTILES", "evaluate"]

QUANTILES = (0.05, 0.25, 0.75, 0.95)


def evaluate(model: IKModel, data_set: DataSet, random_seed: int = 0) -> dict[str, float]:
    """One raw sample of the model for each test context, measured by forward kinematics.

    Parameters
    ----------
    model : IKModel
    data_set : DataSet
        Test data of the same robot and kind of context.
    random_seed : int
        Of the samples.

    Returns
    -------
    dict
        rmse_position, median_position, quantile_05_position ... [m]; for pose contexts median_orientation [rad];
        share_in_limits; entropy_marginal H(E q(z|y)) and entropy_conditional E H(q(z|y)), normalised to [0, 1];
        mean_log_prob of the test configurations [nat].
    """
    expect(model, IKModel, "model")
    random_seed = checked_whole(random_seed, 0, "the random seed")
    robot = robot_of(data_set, model.robot)
    if context_kind_of(data_set) != model.context_kind:
        raise DataError(
            f"the data set has contexts of kind '{context_kind_of(data_set)}', the model '{model.context_kind}'; "
            f"collect data with --context {model.context_kind}",
            model.context_kind,
        )
    if not len(data_set):
        raise DataError("the data set is empty", 0)
    context, configurations = torch.from_numpy(data_set.context), torch.from_numpy(data_set.sample)
    generator = torch.Generator().manual_seed(random_seed)
    mixture = model.mixture.to(dtype=torch.float64)
    drawn = mixture.sample(context, generator).numpy()
    reached = robot.forward(drawn)
    error = np.linalg.norm(reached[:, :3, 3] - data_set.context[:, :3], axis=1)
    figures = {
        "rmse_position": float(np.sqrt(np.mean(error**2))),
        "median_position": float(np.median(error)),
    }
    figures |= {f"quantile_{round(100 * q):02d}_position": float(np.quantile(error, q)) for q in QUANTILES}
    if model.context_kind == "pose":
        wanted = pose_from_context(data_set.context)[:, :3, :3]
        cosine = 0.5 * (np.einsum("nij,nij->n", wanted, reached[:, :3, :3]) - 1.0)
        figures["median_orientation"] = float(np.median(np.arccos(np.clip(cosine, -1.0, 1.0))))
    return figures | {
        "share_in_limits": float(robot.within_limits(drawn).mean()),
        "entropy_marginal": float(mixture.marginal_entropy(context)),
        "entropy_conditional": float(mixture.conditional_entropy(context)),
        "mean_log_prob": float(mixture.log_prob(context, configurations).mean()),
    }
