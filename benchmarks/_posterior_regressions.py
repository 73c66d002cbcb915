"""Normal linear regressions of posteriordb."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from benchmarks._posterior import Columns, Posterior, cauchy, normal, student
from experiments.targets.shapes import LOG_TWO_PI


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
        n, k = matrix.shape
        # only the residuals in the span of the columns depend on the coefficients
        orthogonal, triangular = torch.linalg.qr(matrix)
        projected = orthogonal.T @ value
        rest = (value - orthogonal @ projected).square().sum()

        def log_prob(x: Tensor) -> Tensor:
            sigma = x[:, k].exp()
            squares = (projected - x[:, :k] @ triangular.T).square().sum(-1) + rest
            likelihood = -0.5 * squares / sigma.square() - n * (x[:, k] + 0.5 * LOG_TWO_PI)
            return likelihood + prior(x[:, :k], sigma) + x[:, k]

        of_stan = names or (*(f"beta[{index + 1}]" for index in range(k)), "sigma")
        return Posterior(k + 1, log_prob, lambda x: torch.cat([x[:, :k], x[:, k:].exp()], -1), of_stan)

    return of_data


def named(*names: str) -> Callable[[Columns], list[Tensor]]:
    """Return a function that selects columns. "a*b" is a product, and "log a" is a logarithm."""

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
    """Return a function that selects two transformed columns and their product."""

    def design(data: Columns) -> list[Tensor]:
        first, second = (shift(name, data[name]) for name in names)
        return [first, second, first * second]

    return design


def levels(name: str, *values: float) -> Callable[[Columns], list[Tensor]]:
    """Return a function that computes an indicator for each value of a factor."""
    return lambda data: [(data[name] == value).double() for value in values]


def half_cauchy(beta: Tensor, sigma: Tensor) -> Tensor:
    """Return the log density of the prior of most models of `kidiq`."""
    return cauchy(sigma, 2.5)


def diamonds(data: Columns) -> Posterior:
    """Return the posterior "diamonds", a regression on centred columns, whose first parameter is the intercept."""
    columns = data["X"][:, 1:]

    def prior(beta: Tensor, sigma: Tensor) -> Tensor:
        return normal(beta[:, 1:], 0.0, 1.0).sum(-1) + student(beta[:, 0], 8.0, 10.0) + student(sigma, 0.0, 10.0)

    names = ("Intercept", *(f"b[{index + 1}]" for index in range(columns.shape[1])), "sigma")
    return regression(lambda _: list((columns - columns.mean(0)).T), single("Y"), prior, names=names)(data)


def autoregression(data: Columns) -> Posterior:
    """Return the posterior "arK", an autoregression of order 5."""
    series, order = data["y"], int(data["K"])
    return regression(
        lambda _: [series[order - lag - 1 : len(series) - lag - 1] for lag in range(order)],
        lambda _: series[order:],
        lambda beta, sigma: normal(beta, 0.0, 10.0).sum(-1) + cauchy(sigma, 2.5),
        names=("alpha", *(f"beta[{lag + 1}]" for lag in range(order)), "sigma"),
    )(data)


def kilpisjarvi(data: Columns) -> Posterior:
    """Return the posterior "kilpisjarvi", a line through summer temperatures with an almost collinear prior."""

    def prior(beta: Tensor, sigma: Tensor) -> Tensor:
        return normal(beta[:, 0], data["pmualpha"], data["psalpha"]) + normal(
            beta[:, 1], data["pmubeta"], data["psbeta"]
        )

    return regression(named("x"), single("y"), prior, names=("alpha", "beta", "sigma"))(data)


def _centred(name: str, column: Tensor) -> Tensor:
    return column - column.mean()


def _standardised(name: str, column: Tensor) -> Tensor:
    return (column - column.mean()) / (2.0 * column.std())


def _earnings(data: Columns) -> list[Tensor]:
    height = (data["height"] - data["height"].mean()) / data["height"].std()
    return [height, data["male"], height * data["male"]]


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

REGRESSIONS: dict[str, Callable[[Columns], Posterior]] = {
    "arK-arK": autoregression,
    f"{EARN}-earn_height": regression(named("height"), single("earn")),
    f"{EARN}-log10earn_height": regression(named("height"), lambda data: data["earn"].log10()),
    f"{EARN}-logearn_height": regression(named("height"), LOG_EARN),
    f"{EARN}-logearn_height_male": regression(named("height", "male"), LOG_EARN),
    f"{EARN}-logearn_interaction": regression(named("height", "male", "height*male"), LOG_EARN),
    f"{EARN}-logearn_interaction_z": regression(_earnings, LOG_EARN),
    f"{EARN}-logearn_logheight_male": regression(named("log height", "male"), LOG_EARN),
    "diamonds-diamonds": diamonds,
    f"{KID}_interaction": regression(named("mom_hs", "mom_iq", "mom_hs*mom_iq"), SCORE, half_cauchy),
    f"{KID}_momhs": regression(named("mom_hs"), SCORE, half_cauchy),
    f"{KID}_momhsiq": regression(named("mom_hs", "mom_iq"), SCORE, half_cauchy),
    f"{KID}_momiq": regression(named("mom_iq"), SCORE, half_cauchy),
    f"{WORK}_interaction_c2": regression(
        moved(("mom_hs", "mom_iq"), lambda name, column: column - (0.5 if name == "mom_hs" else 100.0)), SCORE
    ),
    f"{WORK}_interaction_c": regression(moved(("mom_hs", "mom_iq"), _centred), SCORE),
    f"{WORK}_interaction_z": regression(moved(("mom_hs", "mom_iq"), _standardised), SCORE),
    f"{WORK}_mom_work": regression(levels("mom_work", 2.0, 3.0, 4.0), SCORE),
    "kilpisjarvi_mod-kilpisjarvi": kilpisjarvi,
    f"{TREE}-mesquite": regression(named(*SIZES, "group"), single("weight")),
    f"{TREE}-logmesquite": regression(named(*(f"log {name}" for name in SIZES), "group"), LOG_WEIGHT),
    f"{TREE}-logmesquite_logva": regression(_volumes("volume", "area", "group"), LOG_WEIGHT),
    f"{TREE}-logmesquite_logvas": regression(_volumes(*SHAPES, "density", "group"), LOG_WEIGHT),
    f"{TREE}-logmesquite_logvash": regression(_volumes(*SHAPES, "group"), LOG_WEIGHT),
    f"{TREE}-logmesquite_logvolume": regression(_volumes("volume"), LOG_WEIGHT),
    **{f"nes{year}-nes": NES for year in range(1972, 2001, 4)},
    "sblrc-blr": BLR,
    "sblri-blr": BLR,
}
