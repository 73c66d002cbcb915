"""Time series of posteriordb: linear recurrences, hidden Markov models and differential equations."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks._posterior import Columns, Posterior, cauchy, normal

STEP = 0.1  # step of the Runge-Kutta method, in the time unit of the data
Emission = Callable[[Tensor, Tensor], Tensor]


def recurrence(inputs: Tensor, factor: Tensor, start: Tensor) -> Tensor:
    """Return values (n, n_times) with value_0 = start and value_t = inputs_t + factor value_(t-1).

    The inputs (n, n_times - 1) begin at t = 1. `factor` and `start` have shape (n,).
    """
    values = [start]
    for column in inputs.unbind(-1):
        values.append(column + factor * values[-1])
    return torch.stack(values, -1)


def moving_average(data: Columns) -> Posterior:
    """Return the posterior "arma11", an autoregression of order 1 whose errors have a moving average of order 1."""
    series = data["y"]

    def log_prob(x: Tensor) -> Tensor:
        mu, phi, theta, sigma = x[:, :1], x[:, 1:2], x[:, 2], x[:, 3].exp()
        errors = recurrence(series[1:] - mu - phi * series[:-1], -theta, series[0] - (mu + phi * mu)[:, 0])
        prior = normal(x[:, 0], 0.0, 10.0) + normal(x[:, 1:3], 0.0, 2.0).sum(-1) + cauchy(sigma, 2.5)
        return normal(errors, 0.0, sigma.unsqueeze(-1)).sum(-1) + prior + x[:, 3]

    names = ("mu", "phi", "theta", "sigma")
    return Posterior(4, log_prob, lambda x: torch.cat([x[:, :3], x[:, 3:].exp()], -1), names)


def volatility(data: Columns) -> Posterior:
    """Return the posterior "garch11", where the variance depends on the last deviation and the last variance."""
    series, first = data["y"], data["sigma1"]

    def parameters(x: Tensor) -> Tensor:
        alpha1 = torch.sigmoid(x[:, 2])
        return torch.stack([x[:, 0], x[:, 1].exp(), alpha1, (1.0 - alpha1) * torch.sigmoid(x[:, 3])], -1)

    def log_prob(x: Tensor) -> Tensor:
        mu, alpha0, alpha1, beta1 = parameters(x).unbind(-1)
        squares = (series[:-1] - mu.unsqueeze(-1)).square()
        variance = recurrence(
            alpha0.unsqueeze(-1) + alpha1.unsqueeze(-1) * squares, beta1, first.square().expand(len(x))
        )
        return (
            normal(series, mu.unsqueeze(-1), variance.sqrt()).sum(-1)
            + x[:, 1]
            + (log_sigmoid_slope(x[:, 2]) + log_sigmoid_slope(x[:, 3]) + torch.nn.functional.logsigmoid(-x[:, 2]))
        )

    return Posterior(4, log_prob, parameters, ("mu", "alpha0", "alpha1", "beta1"))


def log_sigmoid_slope(x: Tensor) -> Tensor:
    """Return the logarithm of the derivative of the logistic function."""
    return torch.nn.functional.logsigmoid(x) + torch.nn.functional.logsigmoid(-x)


def hidden_markov(log_emissions: Tensor, log_transitions: Tensor) -> Tensor:
    """Return log likelihoods (n,) by the forward algorithm, without a distribution of the first state.

    The emissions have the shape (n, n_times, n_states), and the transitions have the shape (n, from, to).
    """
    first, *others = log_emissions.unbind(1)
    forward = first
    for emission in others:
        forward = torch.logsumexp(forward.unsqueeze(-1) + log_transitions, 1) + emission
    return torch.logsumexp(forward, -1)


def two_states(
    means: tuple[str, ...], prior_means: tuple[float, float], *, positive: bool, emission: Callable[[Columns], Emission]
) -> Callable[[Columns], Posterior]:
    """Return a hidden Markov model with two states, whose emissions have ordered parameters.

    Parameters
    ----------
    means : tuple of str
        Names of the parameters of the emissions. Each parameter has a value for both states.
    prior_means : pair of float
        Means of the priors of these parameters for the two states.
    positive : bool
        Whether the parameters are positive.
    emission : callable
        Function of the data that returns a function from parameters (n, n_means, 2) to log densities (n, n_times, 2).
    """

    def of_data(data: Columns) -> Posterior:
        counts = data.get("alpha", torch.ones(2, 2, dtype=torch.float64))
        log_density = emission(data)

        def emission_parameters(x: Tensor) -> Tensor:
            pairs = x[:, 2:].unflatten(-1, (len(means), 2))
            lower = pairs[..., 0].exp() if positive else pairs[..., 0]
            return torch.stack([lower, lower + pairs[..., 1].exp()], -1)

        def parameters(x: Tensor) -> Tensor:
            stay = torch.sigmoid(x[:, :2])
            return torch.cat([torch.stack([stay, 1.0 - stay], -1).flatten(1), emission_parameters(x).flatten(1)], -1)

        def log_prob(x: Tensor) -> Tensor:
            logs = torch.nn.functional.logsigmoid(torch.stack([x[:, :2], -x[:, :2]], -1))  # (n, from, to)
            full = emission_parameters(x)
            steps = x[:, 2:].unflatten(-1, (len(means), 2))
            jacobian = log_sigmoid_slope(x[:, :2]).sum(-1) + (steps if positive else steps[..., 1:]).sum((-2, -1))
            prior = ((counts - 1.0) * logs).sum((-2, -1)) + normal(full, full.new_tensor(prior_means), 1.0).sum(
                (-2, -1)
            )
            return hidden_markov(log_density(full), logs) + prior + jacobian

        names = [f"{name}[{state}]" for name in ("theta1", "theta2", *means) for state in (1, 2)]
        return Posterior(2 + 2 * len(means), log_prob, parameters, tuple(names))

    return of_data


def exponential_emissions(data: Columns) -> Emission:
    """Return exponential densities of the speed and of the distance, given their rates."""
    values = torch.stack([data["u"], data["v"]])

    def log_density(rates: Tensor) -> Tensor:
        return (rates.log().unsqueeze(-2) - rates.unsqueeze(-2) * values.unsqueeze(-1)).sum(1)

    return log_density


def normal_emissions(data: Columns) -> Emission:
    """Return normal densities of the outputs, given their means."""
    if "tau" in data:
        values, scales = torch.stack([data["u"], data["v"]]), torch.stack([data["tau"], data["rho"]])
    else:
        values, scales = data["y"].unsqueeze(0), torch.ones(1, dtype=torch.float64)
    return lambda mean: normal(values.unsqueeze(-1), mean.unsqueeze(-2), scales[:, None, None]).sum(1)


def runge_kutta(
    rate: Callable[[float, tuple[Tensor, ...]], tuple[Tensor, ...]], start: tuple[Tensor, ...], times: Tensor
) -> list[tuple[Tensor, ...]]:
    """Return the states at `times` of a differential equation that starts at time 0, by the method of order 4.

    `times` must ascend. A step has at most the length `STEP`.
    """

    def moved(state: tuple[Tensor, ...], slope: tuple[Tensor, ...], length: float) -> tuple[Tensor, ...]:
        return tuple(value + length * change for value, change in zip(state, slope, strict=True))

    now, state, states = 0.0, start, []
    for end in times.tolist():
        n_steps = max(1, round((end - now) / STEP))
        length = (end - now) / n_steps
        for _ in range(n_steps):
            first = rate(now, state)
            second = rate(now + length / 2, moved(state, first, length / 2))
            third = rate(now + length / 2, moved(state, second, length / 2))
            fourth = rate(now + length, moved(state, third, length))
            state = moved(moved(state, first, length / 6), fourth, length / 6)
            state = moved(moved(state, second, length / 3), third, length / 3)
            now += length
        states.append(state)
    return states


def log_normal(value: Tensor, mean_of_log: Tensor | float, scale: Tensor | float) -> Tensor:
    """Return the log density of log-normal variables, elementwise."""
    return normal(value.log(), mean_of_log, scale) - value.log()


def hares_and_lynxes(data: Columns) -> Posterior:
    """Return the posterior "lotka_volterra": numbers of hares and lynxes with log-normal measurement errors."""
    observed = torch.cat([data["y_init"].unsqueeze(0), data["y"]])  # (n_times, 2)
    prior_means = torch.tensor([1.0, 0.05, 1.0, 0.05], dtype=torch.float64)
    prior_scales = torch.tensor([0.5, 0.05, 0.5, 0.05], dtype=torch.float64)
    means_of_logs = torch.tensor([math.log(10.0), math.log(10.0), -1.0, -1.0], dtype=torch.float64)

    def log_prob(x: Tensor) -> Tensor:
        full = x.exp()
        alpha, beta, gamma, delta, hares, lynxes = full[:, :6].unbind(-1)

        def rate(time: float, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            hares, lynxes = state
            return (alpha - beta * lynxes) * hares, (delta * hares - gamma) * lynxes

        start = (hares, lynxes)
        states = torch.stack([torch.stack(one, -1) for one in (start, *runge_kutta(rate, start, data["ts"]))], 1)
        likelihood = log_normal(observed, states.log(), full[:, None, 6:]).sum((-2, -1))
        prior = normal(full[:, :4], prior_means, prior_scales).sum(-1)
        prior_of_logs = normal(x[:, 4:], means_of_logs, 1.0).sum(-1)
        return torch.nan_to_num(likelihood, nan=-torch.inf) + prior + prior_of_logs + x[:, :4].sum(-1)

    names = [f"theta[{i}]" for i in range(1, 5)] + [f"{name}[{i}]" for name in ("z_init", "sigma") for i in (1, 2)]
    return Posterior(8, log_prob, torch.exp, tuple(names))


def elimination(data: Columns) -> Posterior:
    """Return the posterior "one_comp_mm_elim_abs": absorption of a dose, and Michaelis-Menten elimination."""
    volume, concentrations = float(data["V"]), data["C_hat"]

    def log_prob(x: Tensor) -> Tensor:
        absorption, half, largest, sigma = x.exp().unbind(-1)

        def rate(time: float, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            dose = (-absorption * time).exp() * float(data["D"]) * absorption / volume
            return (dose - largest / volume * state[0] / (half + state[0]),)

        states = runge_kutta(rate, (torch.zeros_like(half),), data["times"])
        predicted = torch.stack([state for (state,) in states], -1)
        likelihood = log_normal(concentrations, predicted.clamp(min=1e-12).log(), sigma.unsqueeze(-1)).sum(-1)
        return torch.nan_to_num(likelihood, nan=-torch.inf) + cauchy(x.exp(), 1.0).sum(-1) + x.sum(-1)

    return Posterior(4, log_prob, torch.exp, ("k_a", "K_m", "V_m", "sigma"))


SERIES: dict[str, Callable[[Columns], Posterior]] = {
    "arma-arma11": moving_average,
    "garch-garch11": volatility,
    "bball_drive_event_0-hmm_drive_0": two_states(
        ("phi", "lambda"), (0.0, 3.0), positive=True, emission=exponential_emissions
    ),
    "bball_drive_event_1-hmm_drive_1": two_states(
        ("phi", "lambda"), (0.0, 3.0), positive=False, emission=normal_emissions
    ),
    "hmm_example-hmm_example": two_states(("mu",), (3.0, 10.0), positive=True, emission=normal_emissions),
    "hudson_lynx_hare-lotka_volterra": hares_and_lynxes,
    "one_comp_mm_elim_abs-one_comp_mm_elim_abs": elimination,
}
