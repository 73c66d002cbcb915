"""Posteriors of posteriordb as targets of variational inference, with the means of its reference draws.

The database is https://github.com/stan-dev/posteriordb (Magnusson et al. 2025). It is read from a folder, or from a git
repository without a work tree. The densities follow its Stan models, with unconstrained parameters, such as the
logarithm of a positive one.
"""

from __future__ import annotations

import io
import json
import subprocess
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from experiments.targets.shapes import LOG_TWO_PI

Columns = dict[str, Tensor]


@dataclass(frozen=True)
class Posterior:
    """Density of unconstrained parameters.

    Attributes
    ----------
    n_dims : int
    log_prob : callable
        Maps parameters (n, n_dims) to log densities (n,) [nat].
    parameters : callable
        Maps parameters (n, n_dims) to parameters of the Stan model, (n, n_parameters), in the order of `names`.
    names : tuple of str
        Names in the reference draws.
    """

    n_dims: int
    log_prob: Callable[[Tensor], Tensor]
    parameters: Callable[[Tensor], Tensor]
    names: tuple[str, ...]


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
    """Return a posterior by its name in the database, one of `POSTERIORS`."""
    data = read(database, f"data/data/{name.partition('-')[0]}")
    columns = {key: torch.tensor(value, dtype=torch.float64) for key, value in data.items() if key not in TEXTS}
    return POSTERIORS[name](columns)


def normal(value: Tensor, mean: Tensor | float, scale: Tensor | float) -> Tensor:
    """Return the log density of normal variables, elementwise."""
    scale = torch.as_tensor(scale, dtype=torch.float64)
    return -0.5 * ((value - mean) / scale).square() - scale.log() - 0.5 * LOG_TWO_PI


def cauchy(value: Tensor, scale: float) -> Tensor:
    """Return the log density of Cauchy variables around zero, up to a constant."""
    return -torch.log1p((value / scale).square())


def flat(beta: Tensor, sigma: Tensor) -> Tensor:
    """Return the log density of an improper uniform prior."""
    return 0.0 * sigma


Prior = Callable[[Tensor, Tensor], Tensor]


def regression(
    design: Callable[[Columns], Sequence[Tensor]],
    response: Callable[[Columns], Tensor],
    prior: Prior = flat,
    *,
    names: tuple[str, ...] | None = None,
    intercept: bool = True,
) -> Callable[[Columns], Posterior]:
    """Return the posterior of a normal linear regression with unknown noise.

    `design` and `response` map the data to regressors and to the response. `prior` maps coefficients (n, k) and noise
    (n,) to log densities.
    """

    def of_data(data: Columns) -> Posterior:
        value, regressors = response(data), list(design(data))
        matrix = torch.stack([torch.ones_like(value)] * intercept + regressors, -1)
        k = matrix.shape[1]

        def log_prob(x: Tensor) -> Tensor:
            sigma = x[:, k].exp()
            likelihood = normal(value, x[:, :k] @ matrix.T, sigma.unsqueeze(-1)).sum(-1)
            return likelihood + prior(x[:, :k], sigma) + x[:, k]

        of_stan = names or (*(f"beta[{index + 1}]" for index in range(k)), "sigma")
        return Posterior(k + 1, log_prob, lambda x: torch.cat([x[:, :k], x[:, k:].exp()], -1), of_stan)

    return of_data


def named(*names: str) -> Callable[[Columns], list[Tensor]]:
    """Return a function that selects columns; "a*b" is a product, and "log a" a logarithm."""

    def column(data: Columns, name: str) -> Tensor:
        if name.startswith("log "):
            return column(data, name[4:]).log()
        first, _, second = name.partition("*")
        return data[first] * column(data, second) if second else data[first]

    return lambda data: [column(data, name) for name in names]


def single(name: str) -> Callable[[Columns], Tensor]:
    """Return a function that selects a column; see `named`."""
    return lambda data: named(name)(data)[0]


def moved(names: Sequence[str], shift: Callable[[str, Tensor], Tensor]) -> Callable[[Columns], list[Tensor]]:
    """Return a function that selects two columns, transformed, and their product."""

    def design(data: Columns) -> list[Tensor]:
        first, second = (shift(name, data[name]) for name in names)
        return [first, second, first * second]

    return design


def levels(name: str, *values: float) -> Callable[[Columns], list[Tensor]]:
    """Return a function that gives an indicator for each value of a factor."""
    return lambda data: [(data[name] == value).double() for value in values]


def half_cauchy(beta: Tensor, sigma: Tensor) -> Tensor:
    """Return the log density of the prior of most models of `kidiq`."""
    return cauchy(sigma, 2.5)


def autoregression(data: Columns) -> Posterior:
    """Return arK: an autoregression of order 5."""
    series, order = data["y"], int(data["K"])
    return regression(
        lambda _: [series[order - lag - 1 : len(series) - lag - 1] for lag in range(order)],
        lambda _: series[order:],
        lambda beta, sigma: normal(beta, 0.0, 10.0).sum(-1) + cauchy(sigma, 2.5),
        names=("alpha", *(f"beta[{lag + 1}]" for lag in range(order)), "sigma"),
    )(data)


def kilpisjarvi(data: Columns) -> Posterior:
    """Return kilpisjarvi: a line through summer temperatures, with an almost collinear prior."""

    def prior(beta: Tensor, sigma: Tensor) -> Tensor:
        return normal(beta[:, 0], data["pmualpha"], data["psalpha"]) + normal(
            beta[:, 1], data["pmubeta"], data["psbeta"]
        )

    return regression(named("x"), single("y"), prior, names=("alpha", "beta", "sigma"))(data)


def eight_schools(data: Columns) -> Posterior:
    """Return the eight schools, with standardised effects as parameters."""
    n = len(data["y"])

    def parameters(x: Tensor) -> Tensor:
        return torch.cat([x[:, :n] * x[:, n + 1 :].exp() + x[:, n : n + 1], x[:, n : n + 1], x[:, n + 1 :].exp()], -1)

    def log_prob(x: Tensor) -> Tensor:
        full = parameters(x)
        prior = normal(x[:, :n], 0.0, 1.0).sum(-1) + normal(x[:, n], 0.0, 5.0) + cauchy(full[:, n + 1], 5.0)
        return prior + normal(data["y"], full[:, :n], data["sigma"]).sum(-1) + x[:, n + 1]

    return Posterior(n + 2, log_prob, parameters, (*(f"theta[{i + 1}]" for i in range(n)), "mu", "tau"))


def gaussian_process(data: Columns) -> Posterior:
    """Return gp_regr: a Gaussian process with unknown length scale, amplitude and noise."""
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


def two_normals(data: Columns) -> Posterior:
    """Return low_dim_gauss_mix: a mixture of two normal densities in one dimension, with ordered means."""

    def parameters(x: Tensor) -> Tensor:
        upper = x[:, 0] + x[:, 1].exp()
        return torch.stack([x[:, 0], upper, x[:, 2].exp(), x[:, 3].exp(), torch.sigmoid(x[:, 4])], -1)

    def log_prob(x: Tensor) -> Tensor:
        full = parameters(x)
        log_share = torch.stack([torch.nn.functional.logsigmoid(sign * x[:, 4]) for sign in (1.0, -1.0)], -1)
        each = normal(data["y"].unsqueeze(-1), full[:, None, :2], full[:, None, 2:4]) + log_share.unsqueeze(1)
        prior = normal(full[:, 2:4], 0.0, 2.0).sum(-1) + normal(full[:, :2], 0.0, 2.0).sum(-1)
        # the beta prior has the exponents 4, and the derivative of the logistic function adds 1
        return torch.logsumexp(each, -1).sum(-1) + prior + 5.0 * log_share.sum(-1) + x[:, 1:4].sum(-1)

    return Posterior(5, log_prob, parameters, ("mu[1]", "mu[2]", "sigma[1]", "sigma[2]", "theta"))


def _standardised(name: str, column: Tensor) -> Tensor:
    return (column - column.mean()) / (2.0 * column.std())


def _nes(data: Columns) -> list[Tensor]:
    ages = levels("age_discrete", 2.0, 3.0, 4.0)(data)
    return [*named("real_ideo", "race_adj")(data), *ages, *named("educ1", "gender", "income")(data)]


def _volumes(*names: str) -> Callable[[Columns], list[Tensor]]:
    def design(data: Columns) -> list[Tensor]:
        area = data["diam1"] * data["diam2"]
        more = {"volume": area * data["canopy_height"], "area": area, "shape": data["diam1"] / data["diam2"]}
        return [({**data, **more}[name].log()) if name != "group" else data[name] for name in names]

    return design


KID, WORK, EARN, TREE = "kidiq-kidscore", "kidiq_with_mom_work-kidscore", "earnings", "mesquite"
TEXTS = ("prior_only",)
SCORE, LOG_EARN, LOG_WEIGHT = single("kid_score"), single("log earn"), single("log weight")
SHAPES = ("volume", "area", "shape", "total_height")
SIZES = ("diam1", "diam2", "canopy_height", "total_height", "density")
BLR = regression(
    lambda data: list(data["X"].T),
    single("y"),
    lambda beta, sigma: normal(beta, 0.0, 10.0).sum(-1) + normal(sigma, 0.0, 10.0),
    intercept=False,
)
NES = regression(_nes, single("partyid7"))

POSTERIORS: dict[str, Callable[[Columns], Posterior]] = {
    "arK-arK": autoregression,
    f"{EARN}-earn_height": regression(named("height"), single("earn")),
    f"{EARN}-log10earn_height": regression(named("height"), lambda data: data["earn"].log10()),
    f"{EARN}-logearn_height": regression(named("height"), LOG_EARN),
    f"{EARN}-logearn_height_male": regression(named("height", "male"), LOG_EARN),
    f"{EARN}-logearn_interaction": regression(named("height", "male", "height*male"), LOG_EARN),
    f"{EARN}-logearn_logheight_male": regression(named("log height", "male"), LOG_EARN),
    "eight_schools-eight_schools_noncentered": eight_schools,
    "gp_pois_regr-gp_regr": gaussian_process,
    f"{KID}_interaction": regression(named("mom_hs", "mom_iq", "mom_hs*mom_iq"), SCORE, half_cauchy),
    f"{KID}_momhs": regression(named("mom_hs"), SCORE, half_cauchy),
    f"{KID}_momhsiq": regression(named("mom_hs", "mom_iq"), SCORE, half_cauchy),
    f"{KID}_momiq": regression(named("mom_iq"), SCORE, half_cauchy),
    f"{WORK}_interaction_c2": regression(
        moved(("mom_hs", "mom_iq"), lambda name, column: column - (0.5 if name == "mom_hs" else 100.0)), SCORE
    ),
    f"{WORK}_interaction_z": regression(moved(("mom_hs", "mom_iq"), _standardised), SCORE),
    f"{WORK}_mom_work": regression(levels("mom_work", 2.0, 3.0, 4.0), SCORE),
    "kilpisjarvi_mod-kilpisjarvi": kilpisjarvi,
    "low_dim_gauss_mix-low_dim_gauss_mix": two_normals,
    f"{TREE}-mesquite": regression(named(*SIZES, "group"), single("weight")),
    f"{TREE}-logmesquite": regression(named(*(f"log {name}" for name in SIZES), "group"), LOG_WEIGHT),
    f"{TREE}-logmesquite_logvas": regression(_volumes(*SHAPES, "density", "group"), LOG_WEIGHT),
    f"{TREE}-logmesquite_logvash": regression(_volumes(*SHAPES, "group"), LOG_WEIGHT),
    f"{TREE}-logmesquite_logvolume": regression(_volumes("volume"), LOG_WEIGHT),
    **{f"nes{year}-nes": NES for year in range(1972, 2001, 4)},
    "sblrc-blr": BLR,
    "sblri-blr": BLR,
}
