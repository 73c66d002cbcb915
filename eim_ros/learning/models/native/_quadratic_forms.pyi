"""Quadratic forms at few components per point (`quadratic_forms.hpp`, `neighbourhood_search.hpp`)."""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

class SelectedForms:
    """Log joints of linear experts, the fields of `QuadraticForms`, for a few components at each point.

    Arrays have exactly the types below, else ValueError is raised, as for a wrong shape or a component that there is
    not; they need not be contiguous or writeable. Calls let other threads run.

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
        """Values (n, G) of the components in index (n, G) at points joint (n, width)."""

    def log_sums(self, joint: FloatArray, states: IntArray, source: IntArray) -> FloatArray:
        """Log (n,) of the forms' exponentials, summed over the components in row source[i] of states (m, G)."""

    def scores(self, joint: FloatArray, index: IntArray, shares: FloatArray) -> FloatArray:
        """Gradients (n, n_dims) in x of the components in index (n, G), averaged with shares (n, G)."""

    def improve_states(
        self, joint: FloatArray, states: IntArray, neighbours: IntArray, random: IntArray
    ) -> tuple[IntArray, IntArray, FloatArray, float, int]:
        """One partial E-step, see `inference/neighbourhood_search.py`, for its arguments too.

        Returns
        -------
        tuple
            New states (n, n_states); new neighbours (n_components, n_neighbours); expected products
            (n_components, n_products); sum over points of the log of the joints summed over their states; number of
            joints evaluated.
        """
