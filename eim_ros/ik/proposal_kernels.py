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
    samples: FloatArray,
    result: FloatArray,
) -> None:
    """Log density of samples (n, d), exact to rounding.

    Components are taken by their height (c,), log weight and log normaliser, in falling order (c,): once a height is
    negligible all later ones are, and a component is left as soon as its exponent is. inverse_scale (m, d, d).
    """
    n_dims = means.shape[1]
    residual = np.empty(n_dims)
    for i in range(len(samples)):
        largest, total = -math.inf, 0.0
        for c in order:
            top = height[c]
            if not top > largest - NEGLIGIBLE:
                break
            part = c % len(inverse_scale)
            most = 2.0 * (top - largest + NEGLIGIBLE)
            square = 0.0
            for a in range(n_dims):
                residual[a] = samples[i, a] - means[c, a]
                white = 0.0
                for b in range(a + 1):
                    white += inverse_scale[part, a, b] * residual[b]
                square += white * white
                if square > most:
                    break
            value = top - 0.5 * square
            if square > most:
                continue
            if value > largest:
                total = total * math.exp(largest - value) + 1.0
                largest = value
            else:
                total += math.exp(value - largest)
        result[i] = largest + math.log(total)
