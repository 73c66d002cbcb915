"""Compiled loops of `proposal.py`: draw from a mixture of many Gaussians, and evaluate its density.

Component c of a mixture is a pair of a context and an expert: context c // n_experts and expert c modulo n_experts.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from eim_ros.kinematics.kernels import next_uniform
from eim_ros.numerics.compiled import compiled

__all__ = ["draw", "fill_normal", "log_densities", "log_gate"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

NEGLIGIBLE = 40.0  # [nat]: exp(-40) of a sum is below its rounding


@compiled
def falling_exp(x: float) -> float:
    """exp(x) of x <= 0 within 1e-12 of itself, 0 where that is negligible beside 1; loops over it are vector code.

    A polynomial for x / 128, squared seven times.
    """
    y = max(x, -NEGLIGIBLE) * (1.0 / 128.0)
    p = 1.0 + y * (1 / 9) * (1.0 + y * (1 / 10) * (1.0 + y * (1 / 11)))
    p = 1.0 + y * (1 / 6) * (1.0 + y * (1 / 7) * (1.0 + y * (1 / 8) * p))
    p = 1.0 + y * (1 / 3) * (1.0 + y * (1 / 4) * (1.0 + y * (1 / 5) * p))
    p = 1.0 + y * (1.0 + y * (1 / 2) * p)
    for _ in range(7):
        p *= p
    return p if x > -NEGLIGIBLE else 0.0


@compiled
def log_gate(contexts: FloatArray, weights: FloatArray, biases: FloatArray, result: FloatArray) -> None:
    """Fill result (n_contexts, k) with log softmax(weights y + biases) - log n_contexts, of weights (dy, k)."""
    n_contexts, n_experts = result.shape
    for i in range(n_contexts):
        for e in range(n_experts):
            result[i, e] = biases[e]
        for b in range(contexts.shape[1]):
            for e in range(n_experts):
                result[i, e] += contexts[i, b] * weights[b, e]
        largest, total = -math.inf, 0.0
        for e in range(n_experts):
            largest = max(largest, result[i, e])
        for e in range(n_experts):
            total += falling_exp(result[i, e] - largest)
        shift = largest + math.log(total * n_contexts)
        for e in range(n_experts):
            result[i, e] -= shift


@compiled
def fill_normal(state: np.uint64, values: FloatArray) -> np.uint64:
    """Fill values (n, d) with standard normal numbers; next state. The polar method (Marsaglia and Bray 1964)."""
    spare, has_spare = 0.0, False
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            if has_spare:
                values[i, j], has_spare = spare, False
                continue
            square = 0.0
            while square == 0.0 or square >= 1.0:
                state, x = next_uniform(state)
                state, y = next_uniform(state)
                x, y = 2.0 * x - 1.0, 2.0 * y - 1.0
                square = x * x + y * y
            scale = math.sqrt(-2.0 * math.log(square) / square)
            values[i, j], spare, has_spare = scale * x, scale * y, True
    return state


@compiled
def draw(
    log_weights: FloatArray,
    tempering: float,
    contexts: FloatArray,
    weights: FloatArray,
    biases: FloatArray,
    scale_trils: FloatArray,
    uniform: FloatArray,
    noise: FloatArray,
    samples: FloatArray,
    components: IntArray,
) -> None:
    """Fill samples (n, d) and components (n,), drawn with weights in proportion to exp(tempering log_weights).

    From log weights (c,), contexts (n_contexts, dy), experts' weights (k, d, dy), biases (k, d) and Cholesky factors
    (k, d, d), uniform numbers (n,) and standard normal ones (n, d). Only experts that are drawn are looked at.
    """
    n_experts, n_dims, n_context = weights.shape
    cumulative = np.empty(len(log_weights))
    largest, total = -math.inf, 0.0
    for c in range(len(log_weights)):
        largest = max(largest, log_weights[c])
    for c in range(len(log_weights)):
        cumulative[c] = falling_exp(tempering * (log_weights[c] - largest))
    for c in range(len(log_weights)):
        total += cumulative[c]
        cumulative[c] = total
    for i in range(len(samples)):
        level = uniform[i] * total
        low, high = 0, len(log_weights) - 1
        while low < high:  # the first component whose cumulative weight exceeds the level
            middle = (low + high) // 2
            if cumulative[middle] > level:
                high = middle
            else:
                low = middle + 1
        components[i] = low
        row, expert = low // n_experts, low % n_experts
        for a in range(n_dims):
            value = biases[expert, a]
            for b in range(n_context):
                value += weights[expert, a, b] * contexts[row, b]
            for b in range(a + 1):
                value += scale_trils[expert, a, b] * noise[i, b]
            samples[i, a] = value


@compiled
def log_densities(
    order: IntArray,
    height: FloatArray,
    means: FloatArray,
    inverse_scale: FloatArray,
    columns: FloatArray,
    result: FloatArray,
) -> None:
    """Log density (n,) of samples, given as columns (d, n); exact to rounding.

    Experts are taken by their greatest height over the contexts, in falling order (k,): once that is negligible at all
    samples, later ones are. height (n_contexts, k): log weight and log normaliser; means (n_contexts, k, d);
    inverse_scale (k, d, d). Samples are whitened once for each expert, all contexts share that. The inner loops run
    over the samples and are vector code.
    """
    n_dims, n = columns.shape
    largest, total, square = np.full(n, -math.inf), np.zeros(n), np.empty(n)
    white = np.empty((n_dims, n))
    for k in order:
        least, top = math.inf, -math.inf
        for i in range(n):
            least = min(least, largest[i])
        for c in range(height.shape[0]):
            top = max(top, height[c, k])
        if not top > least - NEGLIGIBLE:
            break
        for a in range(n_dims):
            for i in range(n):
                white[a, i] = 0.0
            for b in range(a + 1):
                factor = inverse_scale[k, a, b]
                for i in range(n):
                    white[a, i] += factor * columns[b, i]
        for c in range(height.shape[0]):
            if not height[c, k] > least - NEGLIGIBLE:
                continue
            for i in range(n):
                square[i] = 0.0
            for a in range(n_dims):
                shift = 0.0
                for b in range(a + 1):
                    shift += inverse_scale[k, a, b] * means[c, k, b]
                for i in range(n):
                    square[i] += (white[a, i] - shift) * (white[a, i] - shift)
            for i in range(n):
                value = height[c, k] - 0.5 * square[i]
                if value > largest[i]:
                    total[i] = total[i] * math.exp(largest[i] - value) + 1.0
                    largest[i] = value
                elif value > largest[i] - NEGLIGIBLE:
                    total[i] += math.exp(value - largest[i])
    for i in range(n):
        result[i] = largest[i] + math.log(total[i])
