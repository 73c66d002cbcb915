"""Motions are represented by weights of basis functions."""

from __future__ import annotations

import numpy as np
import pytest

from eim_ros.core.errors import DataError
from eim_ros.motion import Basis, Representation

RNG = np.random.default_rng(0)


@pytest.fixture(params=["gaussian", "via-points"])
def representation(request: pytest.FixtureRequest) -> Representation:
    return Representation(Basis(request.param, 6), ("a", "b"), 30)


def test_weights_of_what_the_basis_can_represent_are_found_again(representation: Representation) -> None:
    weights = RNG.standard_normal((5, 12))
    positions = representation.positions(weights, representation.grid)
    # the ridge of 1e-10 changes weights by about 1e-10 times the squared condition number of the basis, which is 30
    np.testing.assert_allclose(representation.weights(positions), weights, atol=1e-6)
    np.testing.assert_allclose(representation.residual(positions), 0.0, atol=1e-6)


def test_residual_is_the_least_over_all_weights(representation: Representation) -> None:
    positions = np.tile(np.sin(40.0 * representation.grid)[:, None], (1, 1, 2)).reshape(1, 30, 2)
    design = representation.basis(representation.grid)
    best = np.linalg.lstsq(design, positions[0], rcond=None)[0]
    expected = np.sqrt(np.square(positions[0] - design @ best).mean())
    np.testing.assert_allclose(representation.residual(positions), expected, rtol=1e-6)
    assert expected > 0.1


def test_design_gives_the_positions_at_a_phase(representation: Representation) -> None:
    weights = RNG.standard_normal((1, 12))
    at_phase = representation.positions(weights, np.array([0.3]))[0, 0]
    np.testing.assert_allclose(representation.design(0.3, [1, 0]) @ weights[0], at_phase[::-1], atol=1e-12)


def test_resampling_does_not_depend_on_start_and_duration(representation: Representation) -> None:
    positions = RNG.standard_normal((30, 2))
    np.testing.assert_allclose(
        representation.resampled(5.0 + 3.0 * representation.grid, positions), positions, atol=1e-9
    )


@pytest.mark.parametrize("times", [[0.0], [0.0, 0.0], [1.0, 0.5]])
def test_times_must_increase(representation: Representation, times: list[float]) -> None:
    with pytest.raises(DataError, match="increasing times"):
        representation.resampled(np.array(times), np.zeros((len(times), 2)))
