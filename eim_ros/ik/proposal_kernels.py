"""Compiled loops of `proposal.py`: draw from a mixture of many Gaussians, and evaluate its density.

Component c of a mixture has mean means[c] and the factors of part c modulo the number of factors: a component is a pair
of a context and an expert, and factors may be shared by all contexts.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from eim_ros.numerics.compiled import compiled

__all__ = ["draw", "log_densities"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

NEGLIGIBLE = 40.0  # [nat]: exp(-40) of a sum is below its rounding


@compiled
def draw(
    cumulative: FloatArray,
    means: FloatArray,
    scale_trils: FloatArray,
    uniform: FloatArray,
    noise: FloatArray,
    samples: FloatArray,
    components: IntArray,
) -> None:
    """Fill samples (n, d) and components (n,).

    From cumulative weights (c,), means (c, d), Cholesky factors (m, d, d), uniform numbers (n,) and standard normal
    ones (n, d).
    """
    n_dims, last = means.shape[1], len(cumulative) - 1
    for i in range(len(samples)):
        level = uniform[i] * cumulative[last]
        low, high = 0, last
        while low < high:  # the first component whose cumulative weight exceeds the level
            middle = (low + high) // 2
            if cumulative[middle] > level:
                high = middle
            else:
                low = middle + 1
        components[i] = low
        part = low % len(scale_trils)
        for a in range(n_dims):
            value = means[low, a]
            for b in range(a + 1):
                value += scale_trils[part, a, b] * noise[i, b]
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

    Components are taken by their height (c,), log weight and log normaliser, in falling order (c,): once a height is
    negligible at all samples, later ones are. The inner loops run over the samples and are vector code. inverse_scale
    (m, d, d).
    """
    n_dims, n = columns.shape
    largest, total, square, white = np.full(n, -math.inf), np.zeros(n), np.empty(n), np.empty(n)
    for c in order:
        top = height[c]
        least = math.inf
        for i in range(n):
            least = min(least, largest[i])
        if not top > least - NEGLIGIBLE:
            break
        part = c % len(inverse_scale)
        for i in range(n):
            square[i] = 0.0
        for a in range(n_dims):
            shift = 0.0
            for b in range(a + 1):
                shift += inverse_scale[part, a, b] * means[c, b]
            for i in range(n):
                white[i] = -shift
            for b in range(a + 1):
                factor = inverse_scale[part, a, b]
                for i in range(n):
                    white[i] += factor * columns[b, i]
            for i in range(n):
                square[i] += white[i] * white[i]
        for i in range(n):
            value = top - 0.5 * square[i]
            if value > largest[i]:
                total[i] = total[i] * math.exp(largest[i] - value) + 1.0
                largest[i] = value
            elif value > largest[i] - NEGLIGIBLE:
                total[i] += math.exp(value - largest[i])
    for i in range(n):
        result[i] = largest[i] + math.log(total[i])
