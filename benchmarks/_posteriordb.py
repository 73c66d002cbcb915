"""Posteriors of posteriordb as targets of variational inference, with the means of its reference draws.

The database is https://github.com/stan-dev/posteriordb (Magnusson et al. 2025). It is read from a folder, or from a git
repository without a work tree. The densities are those of its Stan models with unconstrained parameters. For example, a
positive parameter is replaced by its logarithm. The module contains the posteriors that have reference draws and up to
50 dimensions.
"""

from __future__ import annotations

import io
import json
import subprocess
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks._posterior import Columns, Posterior, cauchy, normal
from benchmarks._posterior_regressions import REGRESSIONS
from benchmarks._posterior_series import SERIES
from experiments.targets.shapes import LOG_TWO_PI

TEXTS = ("prior_only",)


def read(database: Path, path: str) -> Any:
    """Return a zipped JSON document of the database."""
    member = f"posterior_database/{path}.json.zip"
    if (database / member).exists():
        content = (database / member).read_bytes()
    else:
        content = subprocess.run(
            ["git", "-C", database, "show", f"HEAD:{member}"], capture_output=True, check=True
        ).stdout
    archive = zipfile.ZipFile(io.BytesIO(content))
    return json.loads(archive.read(archive.namelist()[0]))


def reference(database: Path, name: str, parameters: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Return the means and the standard deviations of the reference draws, both (n_parameters,)."""
    chains = read(database, f"reference_posteriors/draws/draws/{name}")
    values = [[value for chain in chains for value in chain[parameter]] for parameter in parameters]
    draws = torch.tensor(values, dtype=torch.float64)
    return draws.mean(-1), draws.std(-1)


def posterior(database: Path, name: str) -> Posterior:
    """Return the posterior with this name in the database, which is one of `POSTERIORS`."""
    data = read(database, f"data/data/{name.partition('-')[0]}")
    columns = {key: torch.tensor(value, dtype=torch.float64) for key, value in data.items() if key not in TEXTS}
    return POSTERIORS[name](columns)


def eight_schools(data: Columns) -> Posterior:
    """Return the posterior of the eight schools, with standardised effects as parameters."""
    n = len(data["y"])

    def parameters(x: Tensor) -> Tensor:
        return torch.cat([x[:, :n] * x[:, n + 1 :].exp() + x[:, n : n + 1], x[:, n : n + 1], x[:, n + 1 :].exp()], -1)

    def log_prob(x: Tensor) -> Tensor:
        full = parameters(x)
        prior = normal(x[:, :n], 0.0, 1.0).sum(-1) + normal(x[:, n], 0.0, 5.0) + cauchy(full[:, n + 1], 5.0)
        return prior + normal(data["y"], full[:, :n], data["sigma"]).sum(-1) + x[:, n + 1]

    return Posterior(n + 2, log_prob, parameters, (*(f"theta[{i + 1}]" for i in range(n)), "mu", "tau"))


def gaussian_process(data: Columns) -> Posterior:
    """Return the posterior "gp_regr", a Gaussian process with unknown length scale, amplitude and noise."""
    squared, n = (data["x"] - data["x"].unsqueeze(-1)).square(), len(data["x"])

    def log_prob(x: Tensor) -> Tensor:
        rho, alpha, sigma = (x[:, index, None, None].exp() for index in range(3))
        covariance = alpha.square() * (-0.5 * squared / rho.square()).exp() + sigma * torch.eye(n, dtype=x.dtype)
        factor, wrong = torch.linalg.cholesky_ex(covariance)
        white = torch.linalg.solve_triangular(factor, data["y"].expand(len(x), n).unsqueeze(-1), upper=False)
        log_det = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        value = -0.5 * white.square().sum((-2, -1)) - log_det - 0.5 * n * LOG_TWO_PI
        flat_rho, flat_alpha, flat_sigma = (x[:, index].exp() for index in range(3))
        prior = 24.0 * x[:, 0] - 4.0 * flat_rho + normal(flat_alpha, 0.0, 2.0) + normal(flat_sigma, 0.0, 1.0)
        return torch.where(wrong == 0, value + prior + x.sum(-1), -torch.inf)

    return Posterior(3, log_prob, torch.exp, ("rho", "alpha", "sigma"))


def poisson_process(data: Columns) -> Posterior:
    """Return the posterior "gp_pois_regr": counts whose log rates are a Gaussian process with standardised values."""
    squared, n = (data["x"] - data["x"].unsqueeze(-1)).square(), len(data["x"])

    def decomposed(x: Tensor) -> tuple[Tensor, Tensor]:
        rho, alpha = (x[:, index, None, None].exp() for index in range(2))
        jitter = 1e-10 * torch.eye(n, dtype=x.dtype)
        factor, wrong = torch.linalg.cholesky_ex(alpha.square() * (-0.5 * squared / rho.square()).exp() + jitter)
        return torch.cat([x[:, :2].exp(), (factor @ x[:, 2:].unsqueeze(-1)).squeeze(-1)], -1), wrong

    def log_prob(x: Tensor) -> Tensor:
        full, wrong = decomposed(x)
        likelihood = (data["k"] * full[:, 2:] - full[:, 2:].exp() - torch.lgamma(data["k"] + 1.0)).sum(-1)
        prior = 24.0 * x[:, 0] - 4.0 * full[:, 0] + normal(full[:, 1], 0.0, 2.0) + normal(x[:, 2:], 0.0, 1.0).sum(-1)
        return torch.where(wrong == 0, likelihood + prior + x[:, :2].sum(-1), -torch.inf)

    return Posterior(
        n + 2, log_prob, lambda x: decomposed(x)[0], ("rho", "alpha", *(f"f[{index + 1}]" for index in range(n)))
    )


def two_normals(data: Columns) -> Posterior:
    """Return the posterior "low_dim_gauss_mix": two normal densities in one dimension with ordered means."""

    def parameters(x: Tensor) -> Tensor:
        upper = x[:, 0] + x[:, 1].exp()
        return torch.stack([x[:, 0], upper, x[:, 2].exp(), x[:, 3].exp(), torch.sigmoid(x[:, 4])], -1)

    def log_prob(x: Tensor) -> Tensor:
        full = parameters(x)
        log_share = torch.stack([torch.nn.functional.logsigmoid(sign * x[:, 4]) for sign in (1.0, -1.0)], -1)
        each = normal(data["y"].unsqueeze(-1), full[:, None, :2], full[:, None, 2:4]) + log_share.unsqueeze(1)
        prior = normal(full[:, 2:4], 0.0, 2.0).sum(-1) + normal(full[:, :2], 0.0, 2.0).sum(-1)
        # the beta prior has exponents of 4, and the derivative of the logistic function adds 1
        return torch.logsumexp(each, -1).sum(-1) + prior + 5.0 * log_share.sum(-1) + x[:, 1:4].sum(-1)

    return Posterior(5, log_prob, parameters, ("mu[1]", "mu[2]", "sigma[1]", "sigma[2]", "theta"))


POSTERIORS: dict[str, Callable[[Columns], Posterior]] = {
    "eight_schools-eight_schools_noncentered": eight_schools,
    "gp_pois_regr-gp_regr": gaussian_process,
    "gp_pois_regr-gp_pois_regr": poisson_process,
    "low_dim_gauss_mix-low_dim_gauss_mix": two_normals,
    **REGRESSIONS,
    **SERIES,
}
