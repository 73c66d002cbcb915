"""Basis functions of the phase have the documented properties."""

from __future__ import annotations

import numpy as np
import pytest

from eim_ros.core.errors import ConfigurationError
from eim_ros.motion import Basis

PHASES = np.linspace(0.0, 1.0, 101)


@pytest.mark.parametrize("kind", ["gaussian", "via-points"])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 10])
def test_functions_sum_to_one_so_that_equal_weights_are_rest(kind: str, n: int) -> None:
    values = Basis(kind, n)(PHASES)
    assert values.shape == (101, n)
    np.testing.assert_allclose(values.sum(axis=1), 1.0, atol=1e-12)


def test_weights_of_via_points_are_the_positions_there() -> None:
    basis = Basis("via-points", 5)
    np.testing.assert_allclose(basis(basis.centers), np.eye(5), atol=1e-12)


def test_narrow_gaussians_do_not_underflow() -> None:
    assert np.isfinite(Basis("gaussian", 10, 1e-3)(PHASES)).all()


@pytest.mark.parametrize(
    "wrong", [("sines", 3, 1.0), ("gaussian", 0, 1.0), ("gaussian", 3, 0.0), ("gaussian", 3, np.nan)]
)
def test_bad_basis_is_refused(wrong: tuple[str, int, float]) -> None:
    with pytest.raises(ConfigurationError, match="basis"):
        Basis(*wrong)
