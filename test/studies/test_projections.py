"""The learners agree with I- and M-projections in closed form."""

import math

import pytest
import torch

from experiments.closed_form_facts import Fact
from experiments.projections import EXPERIMENT, Projections, ProjectionsConfig, projections_of


def measured(config: ProjectionsConfig, seed: int) -> Projections:
    return projections_of(
        [{**cell, **EXPERIMENT.measure(config, cell, seed).figures} for cell in EXPERIMENT.cells(config)]
    )


@pytest.fixture(scope="module")
def found() -> Projections:
    return measured(ProjectionsConfig(n_iterations=40, n_samples=2000), seed=1)


def of(found: Projections, case: str) -> list[Fact]:
    facts = [fact for fact in found.facts if fact.case.startswith(case)]
    assert facts, case
    return facts


@pytest.mark.parametrize(
    ("case", "rel", "absolute"),
    [
        # the other mode shifts the exact mean, but few of 2000 samples reach this mode
        ("two modes, I-projection, right", 0.0, 1e-3),
        ("two modes, I-projection, left", 0.0, 1e-3),
        ("two modes, M-projection", 0.0, 1e-6),
        ("weights .3 and .7", 0.0, 1e-5),
        # a quadratic log density ratio gives nearly exact results; the grid ends at six deviations
        ("isotropic, variances 1, 4, ", 1e-6, 0.0),
        ("isotropic, variances 1, 100, ", 1e-6, 0.0),
        ("isotropic, variances 1, 4, 25, ", 1e-6, 0.0),
        ("mean field", 0.0, 1e-6),
    ],
)
def test_learners_find_the_closed_forms(found, case, rel, absolute):
    for fact in of(found, case):
        assert fact.found == pytest.approx(fact.exact, rel=rel, abs=absolute)


def test_closed_forms_are_the_published_ones(found):
    assert abs(float(found.two_modes.right.mean)) == pytest.approx(2.999915, abs=1e-3)
    assert float(found.two_modes.moments.covariance) == pytest.approx(9.49, abs=1e-9)
    for variances, known in (("1, 4", 0.223143551), ("1, 100", 1.619388243), ("1, 4, 25", 1.036629988)):
        kl = next(fact for fact in of(found, f"isotropic, variances {variances}, I") if fact.quantity == "KL(q || p)")
        assert kl.found == pytest.approx(known, abs=1e-8)
    for side, share in (("right", 0.7), ("left", 0.3)):
        assert of(found, f"weights .3 and .7, I-projection, {side}")[0].found == pytest.approx(
            -math.log(share), abs=1e-4
        )


def test_local_minimum_between_two_modes_is_a_fixed_point(found):
    mean, deviation, kl = of(found, "two modes, local minimum")
    # The fit makes a random walk with small steps. For three seeds, errors were at most 0.1 in the mean, 0.02 in the
    # deviation and 1e-3 in the divergence.
    assert mean.found == pytest.approx(0.0, abs=0.3)
    assert deviation.found == pytest.approx(2.579705, abs=0.06)
    assert kl.found == pytest.approx(2.240527, abs=5e-3)
    assert kl.found > kl.exact  # the exact result is a minimum


def test_starts_fall_into_the_local_minimum_or_escape(found):
    ends = {fact.case: fact.found for fact in of(found, "two modes, start at")}
    assert ends["two modes, start at 0.3, quadrature"] == pytest.approx(0.0, abs=1e-6)
    assert ends["two modes, start at 0.8, quadrature"] == pytest.approx(0.0, abs=1e-6)
    assert ends["two modes, start at 1.5, quadrature"] == pytest.approx(2.999915, abs=1e-3)


def test_coordinate_ascent_of_the_mean_field_contracts_by_the_squared_correlation(found):
    path = found.mean_field.path
    errors = (path[2::2] - found.mean_field.target.mean).norm(dim=-1)
    ratio = errors[1:20] / errors[:19]
    torch.testing.assert_close(ratio, torch.full_like(ratio, 0.81), rtol=1e-8, atol=0.0)
