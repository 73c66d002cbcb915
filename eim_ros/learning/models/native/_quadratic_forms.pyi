"""Quadratic forms for a few components per point (`quadratic_forms.hpp`, `neighbourhood_search.hpp`).

The module also contains EM (`gaussian_em.hpp`), k-means (`k_means.hpp`), and sums over tables of probabilities
(`softmax.hpp`).
"""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

class SelectedForms:
    """Log joint densities of linear experts, evaluated for a few components at each point.

    The parameters are the fields of `QuadraticForms`. ValueError is raised if an array has another dtype, a wrong
    shape, or the index of a component that does not exist. Arrays need not be contiguous or writeable. The GIL is
    released during calls.

    Parameters
    ----------
    coefficients : array (n_components, n_products)
    narrow : array (n_narrow,) of int64
    residuals : array (n_narrow, n_dims, width + 1)
        With width = n_dims + n_context.
    linear : array (n_narrow, width + 1)
    """

    def __init__(
        self, coefficients: FloatArray, narrow: IntArray, residuals: FloatArray, linear: FloatArray
    ) -> None: ...
    def values(self, joint: FloatArray, index: IntArray) -> FloatArray:
        """Return the values (n, G) of the components in index (n, G) at points joint (n, width)."""

    def log_sums(self, joint: FloatArray, states: IntArray, source: IntArray) -> FloatArray:
        """Return the log-sum-exp (n,) of the forms over the components in row source[i] of states (m, G)."""

    def scores(self, joint: FloatArray, index: IntArray, shares: FloatArray) -> FloatArray:
        """Return gradients (n, n_dims) in x of the components in index (n, G), averaged with shares (n, G)."""

    def improve_states(
        self, joint: FloatArray, states: IntArray, neighbours: IntArray, random: IntArray
    ) -> tuple[IntArray, IntArray, FloatArray, float, int]:
        """Do one partial E-step. The method and the arguments are explained in `learning/em/truncated.py`.

        Returns
        -------
        tuple
            New states (n, n_states), new neighbours (n_components, n_neighbours), expected products
            (n_components, n_products), free energy [nat], and number of evaluated joint densities. The free energy is
            the log of the joint densities summed over the states of a point, summed over points.
        """

def em_step(
    points: FloatArray,
    weight: FloatArray | None,
    log_weights: FloatArray,
    means: FloatArray,
    factors: FloatArray,
    units: FloatArray,
    floor: float,
) -> tuple[float, FloatArray, FloatArray, FloatArray] | None:
    """Do one iteration of EM for a Gaussian mixture.

    Parameters
    ----------
    points : array (n_dims, n)
    weight : array (n,), optional
        Weights of the points, with a mean of one.
    log_weights : array (n_components,)
        They need not be normalised.
    means : array (n_components, n_dims)
    factors : array (n_components, n_dims, n_dims)
        Cholesky factors of the covariances.
    units : array (n_dims,)
    floor : float
        Minimum variance of a component in any direction, after division of each coordinate by its unit. If it is
        negative, components may be singular.

    Returns
    -------
    tuple, or None
        The mean log-likelihood of the old mixture [nat], and the new log weights, means and factors. The result is None
        if a new component has no weight, is singular or is below the floor, or if the log-likelihood is not finite.
    """

def k_means(points: FloatArray, weight: FloatArray | None, uniform: FloatArray, n_iterations: int) -> IntArray:
    """Cluster points (n_dims, n) by k-means; return the cluster of each point, (n,).

    `weight` (n,) contains the weights of the points. `uniform` (n_clusters,) contains numbers from [0, 1), which choose
    the first centers. `n_iterations` is the maximum number of Lloyd's iterations.
    """

def softmax_lagrangian(
    design: FloatArray, parameters: FloatArray, fixed: FloatArray, slope: float
) -> tuple[float, FloatArray]:
    """Return the mean over contexts of sum_z q(z|y) (fixed(y, z) - slope log q(z|y)), and its gradient.

    Here log q = log softmax(design parameters'). The gradient with respect to the parameters has their shape.

    Parameters
    ----------
    design : array (n_contexts, n_columns)
    parameters : array (n_components, n_columns)
    fixed : array (n_contexts, n_components)
    slope : float
    """

def tilted_moments(old: FloatArray, reward: FloatArray, a: float, s: float) -> tuple[float, float, float, float, float]:
    """Return means over the rows of the table q(z|y) ~ exp(value) with value = (a old + reward) / s.

    Parameters
    ----------
    old, reward : array (n_contexts, n_components)
        Finite numbers.
    a, s : float

    Returns
    -------
    tuple
        The entropy of q, -E_q[old], the variance of the value under q, its covariance with old, and the variance of
        old.
    """
