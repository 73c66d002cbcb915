"""Line reaching: figures describe the fitted mixtures, and EIM stays on the line although EM does not."""

import dataclasses

import pytest
import torch

from eim_ros.planar.line_reaching import LEARNERS, LineReachingConfig, coverage, fit_line_reaching
from experiments.line_reaching import EXPERIMENT

SMALL = LineReachingConfig(n_components=(1, 2), n_samples=1000, n_links=4, line_x=2.0, line_height=3.0, n_iterations=15)


@pytest.fixture(scope="module")
def result():
    return fit_line_reaching(SMALL, seed=1)


def test_every_learner_is_reported_for_every_number_of_components(result):
    assert set(result.fits) == {(learner, count) for learner in LEARNERS for count in (1, 2)}
    for (_, count), fit in result.fits.items():
        assert fit.mixture.n_components == count
        assert 0.0 <= fit.coverage <= 1.0
        assert fit.histogram.sum() == pytest.approx(1.0)


def test_figures_are_those_of_fresh_samples(result):
    for fit in result.fits.values():
        tip = result.arm.tip(fit.mixture.sample(20_000, torch.Generator().manual_seed(7)))
        distance = result.task.distance(tip)
        # four standard errors of both means, of 1000 and 20000 samples
        assert float(distance.mean()) == pytest.approx(fit.distance, abs=4.2 * float(distance.std()) / 1000**0.5)
        assert float((distance <= 0.1).double().mean()) == pytest.approx(fit.near, abs=4.2 * 0.5 / 1000**0.5)


def test_eim_stays_nearer_to_the_line_than_em_and_nearest_with_the_tip(result):
    for count in (1, 2):
        em, eim, informed = (result.fits[learner, count].distance for learner in LEARNERS)
        assert eim < 0.5 * em
        assert informed < 0.5 * em


def test_expert_covers_the_line_from_end_to_end(result):
    assert result.task.distance(result.arm.tip(result.test)).mean() < 0.02
    assert result.histogram.sum() == pytest.approx(1.0)


def test_coverage_is_the_overlap_of_histograms():
    one, other = torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.0, 0.25, 0.75])
    assert coverage(one, one) == 1.0
    assert coverage(one, other) == 0.25
    assert coverage(one, torch.zeros(3)) == 0.0


def test_row_of_the_table_has_the_figures_of_the_fit(result):
    for cell in EXPERIMENT.cells(SMALL):
        if cell["n_components"] != 2 or cell["estimator"] not in ("none", "residual"):
            continue
        figures = EXPERIMENT.measure(SMALL, cell, 1).figures
        fit = result.fits[cell["method"], 2]
        assert figures["distance"] == fit.distance
        assert figures["coverage"] == fit.coverage
        assert len(figures["samples"]) == 60


def test_row_of_the_expert_is_that_of_the_test_data(result):
    (cell,) = [cell for cell in EXPERIMENT.cells(SMALL) if cell["method"] == "expert"]
    figures = EXPERIMENT.measure(SMALL, cell, 1).figures
    assert figures["distance"] == pytest.approx(float(result.task.distance(result.arm.tip(result.test)).mean()))
    assert sum(figures["histogram"]) == pytest.approx(1.0, abs=1e-4)  # rounded


def test_seed_alone_decides():
    few = dataclasses.replace(SMALL, n_components=(2,), n_samples=200, n_iterations=2)
    whole = dataclasses.replace(few, n_components=(1, 2))
    first, second = fit_line_reaching(few, seed=3), fit_line_reaching(whole, seed=3)
    for learner in LEARNERS:
        assert first.fits[learner, 2].distance == second.fits[learner, 2].distance
