"""Compiled kernels: quadratic forms of few components per point, as plain loops; see `quadratic_form.py`.

They share one file because numba's disk cache notices a change of a kernel's own file only, not of a file it calls.

Arguments named alike throughout: joint (n, D), the points [x, y]; products (F,), those of the coordinates of one point;
coefficients (K, F); place (K,), the row of a narrow component in residuals (m, dx, D + 1) and linear (m, D + 1), -1 for
others; index (n, G), the components of each point.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from eim_ros.numerics.compiled import compiled

__all__ = ["improve_states", "selected_log_sums", "selected_scores", "selected_values"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

NEGLIGIBLE = 1e-20  # responsibility, far below rounding
DISTANT = 46.0  # [nat] its logarithm


@compiled
def narrow_value(residuals: FloatArray, linear: FloatArray, narrow: int, joint: FloatArray, i: int) -> float:
    """Log joint of a narrow component at point i, by its residuals."""
    width = joint.shape[1]
    value: float = linear[narrow, width]
    for k in range(width):
        value += linear[narrow, k] * joint[i, k]
    for a in range(residuals.shape[1]):
        residual = residuals[narrow, a, width]
        for k in range(width):
            residual += residuals[narrow, a, k] * joint[i, k]
        value -= 0.5 * residual * residual
    return value


@compiled
def multiply(joint: FloatArray, i: int, products: FloatArray) -> None:
    """Products of the coordinates of point i and 1, in the order of `products_of_coordinates`."""
    width = joint.shape[1]
    position = 0
    for a in range(width):
        for b in range(a, width):
            products[position] = joint[i, a] * joint[i, b]
            position += 1
        products[position] = joint[i, a]
        position += 1
    products[position] = 1.0


@compiled
def selected_values(
    coefficients: FloatArray,
    place: IntArray,
    residuals: FloatArray,
    linear: FloatArray,
    joint: FloatArray,
    index: IntArray,
    values: FloatArray,
) -> None:
    """Write the forms' values (n, G)."""
    n_products = coefficients.shape[1]
    products = np.empty(n_products)
    for i in range(index.shape[0]):
        multiply(joint, i, products)
        for g in range(index.shape[1]):
            component = index[i, g]
            value = 0.0
            for p in range(n_products):
                value += coefficients[component, p] * products[p]
            if place[component] >= 0:
                value = narrow_value(residuals, linear, place[component], joint, i)
            values[i, g] = value


@compiled
def selected_log_sums(
    coefficients: FloatArray,
    place: IntArray,
    residuals: FloatArray,
    linear: FloatArray,
    joint: FloatArray,
    states: IntArray,
    source: IntArray,
    sums: FloatArray,
) -> None:
    """Write the log (n,) of the forms' exponentials, summed over the components in row source[i] of states (m, G)."""
    n_products, n_states = coefficients.shape[1], states.shape[1]
    products, values = np.empty(n_products), np.empty(n_states)
    for i in range(source.shape[0]):
        multiply(joint, i, products)
        largest = -math.inf
        for g in range(n_states):
            component = states[source[i], g]
            value = 0.0
            for p in range(n_products):
                value += coefficients[component, p] * products[p]
            if place[component] >= 0:
                value = narrow_value(residuals, linear, place[component], joint, i)
            values[g] = value
            largest = max(largest, value)
        total = 0.0
        for g in range(n_states):
            if values[g] > largest - DISTANT:
                total += math.exp(values[g] - largest)
        sums[i] = largest + math.log(total)


@compiled
def selected_scores(
    coefficients: FloatArray,
    place: IntArray,
    residuals: FloatArray,
    linear: FloatArray,
    joint: FloatArray,
    index: IntArray,
    shares: FloatArray,
    scores: FloatArray,
) -> None:
    """Write the gradients (n, dx) in x of the forms, averaged with the shares (n, G).

    The average of the coefficients is a form itself, of which one gradient is taken.
    """
    n_products, width, n_dims = coefficients.shape[1], joint.shape[1], scores.shape[1]
    average = np.empty(n_products)
    for i in range(index.shape[0]):
        for p in range(n_products):
            average[p] = 0.0
        for a in range(n_dims):
            scores[i, a] = 0.0
        for g in range(index.shape[1]):
            share, component = shares[i, g], index[i, g]
            if share <= NEGLIGIBLE:
                continue
            narrow = place[component]
            if narrow < 0:
                for p in range(n_products):
                    average[p] += share * coefficients[component, p]
                continue
            for a in range(n_dims):
                scores[i, a] += share * linear[narrow, a]
            for b in range(n_dims):
                residual = residuals[narrow, b, width]
                for k in range(width):
                    residual += residuals[narrow, b, k] * joint[i, k]
                for a in range(n_dims):
                    scores[i, a] -= share * residual * residuals[narrow, b, a]
        position = 0
        for a in range(width):
            for b in range(a, width):
                if a < n_dims:
                    scores[i, a] += average[position] * joint[i, b]
                if b < n_dims:
                    scores[i, b] += average[position] * joint[i, a]
                position += 1
            if a < n_dims:
                scores[i, a] += average[position]
            position += 1


@compiled
def insert(value: float, component: int, kept: FloatArray, chosen: IntArray, filled: int) -> None:
    """Put a component in its place among the greatest ones."""
    j = min(filled, kept.shape[0] - 1)
    while j > 0 and value > kept[j - 1]:
        kept[j] = kept[j - 1]
        chosen[j] = chosen[j - 1]
        j -= 1
    kept[j] = value
    chosen[j] = component


@compiled
def visiting_order(states: IntArray, n_components: int, begins: IntArray, order: IntArray) -> None:
    """Points sorted by their first state: those of c are order[begins[c]:begins[c + 1]]."""
    for i in range(states.shape[0]):
        begins[states[i, 0] + 1] += 1
    for c in range(n_components):
        begins[c + 1] += begins[c]
    position = begins.copy()
    for i in range(states.shape[0]):
        order[position[states[i, 0]]] = i
        position[states[i, 0]] += 1


@compiled
def improve_states(
    coefficients: FloatArray,
    place: IntArray,
    residuals: FloatArray,
    linear: FloatArray,
    joint: FloatArray,
    states: IntArray,
    neighbours: IntArray,
    refreshed: IntArray,
    random: IntArray,
    sums: FloatArray,
) -> tuple[float, int]:
    """Write the new K(n) to states, the new lists to refreshed, and the expected products to sums.

    Returns the sum of the log of the joints over K(n), and the number of joints evaluated.
    """
    n_components, n_products = coefficients.shape
    n_states, n_neighbours, n_random = states.shape[1], neighbours.shape[1], random.shape[1]
    begins, order = np.zeros(n_components + 1, dtype=np.int64), np.empty(states.shape[0], dtype=np.int64)
    visiting_order(states, n_components, begins, order)
    products, chosen = np.empty(n_products), np.empty(n_states, dtype=np.int64)
    kept, shares = np.empty(n_states), np.empty(n_states)
    candidates = np.empty(n_states * (n_neighbours + 1) + n_random, dtype=np.int64)
    seen, met = np.full(n_components, -1, dtype=np.int64), np.full(n_components, -1, dtype=np.int64)
    total, count = np.zeros(n_components), np.zeros(n_components)
    touched = np.empty(n_components, dtype=np.int64)
    near, listed = np.empty(n_neighbours), np.empty(n_neighbours, dtype=np.int64)
    free = 0.0
    n_evaluations = 0
    for c in range(n_components):
        n_touched = 0
        for position in range(begins[c], begins[c + 1]):
            i = order[position]
            multiply(joint, i, products)
            n_candidates = 0
            for j in range(n_states):
                candidates[n_candidates] = states[i, j]
                seen[states[i, j]] = i
                n_candidates += 1
            for j in range(n_states):
                for k in range(n_neighbours):
                    other = neighbours[states[i, j], k]
                    if seen[other] != i:
                        seen[other] = i
                        candidates[n_candidates] = other
                        n_candidates += 1
            for k in range(n_random):
                other = random[i, k]
                if seen[other] != i:
                    seen[other] = i
                    candidates[n_candidates] = other
                    n_candidates += 1
            n_evaluations += n_candidates
            own = 0.0
            threshold = -math.inf
            for k in range(n_candidates):
                other = candidates[k]
                value = 0.0
                for p in range(n_products):
                    value += coefficients[other, p] * products[p]
                if place[other] >= 0:
                    value = narrow_value(residuals, linear, place[other], joint, i)
                if k == 0:
                    own = value
                if k < n_states or value > threshold:
                    insert(value, other, kept, chosen, k)
                    if k >= n_states - 1:
                        threshold = kept[n_states - 1]
                if met[other] != c:
                    met[other] = c
                    total[other] = count[other] = 0.0
                    touched[n_touched] = other
                    n_touched += 1
                total[other] += value - own
                count[other] += 1.0
            normaliser = 0.0
            for j in range(n_states):
                shares[j] = math.exp(kept[j] - kept[0])
                normaliser += shares[j]
            free += kept[0] + math.log(normaliser)
            for j in range(n_states):
                states[i, j] = chosen[j]
                share = shares[j] / normaliser
                if share > NEGLIGIBLE:
                    for p in range(n_products):
                        sums[chosen[j], p] += share * products[p]
        if n_touched < n_neighbours:
            continue
        filled = 0
        threshold = -math.inf
        for k in range(n_touched):
            other = touched[k]
            value = math.inf if other == c else total[other] / count[other]
            if filled < n_neighbours or value > threshold:
                insert(value, other, near, listed, filled)
                filled += 1
                if filled >= n_neighbours:
                    threshold = near[n_neighbours - 1]
        for k in range(n_neighbours):
            refreshed[c, k] = listed[k]
    return free, n_evaluations
