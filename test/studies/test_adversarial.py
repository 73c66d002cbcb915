"""In the comparison on random mixtures, every cell has its estimator, and every method gets the same problem."""

import dataclasses
import math

import pytest

from experiments.adversarial import EXPERIMENT, AdversarialComparisonConfig

SMALL = AdversarialComparisonConfig(
    n_dims=(2,),
    n_components=(1, 2),
    ratios=("network", "plug-in", "known"),
    n_samples=300,
    n_test_samples=300,
    n_iterations=2,
    n_epochs=1,
    n_steps=2,
)


def test_weights_are_learnt_both_ways_where_there_are_several():
    gans = [cell for cell in EXPERIMENT.cells(SMALL) if cell["method"] == "GAN"]
    assert {cell["weights"] for cell in gans if cell["n_components"] == 1} == {"none"}
    assert {cell["weights"] for cell in gans if cell["n_components"] == 2} == {"gumbel", "mutual-information"}


def test_known_ratio_is_for_eim_itself():
    known = [cell["method"] for cell in EXPERIMENT.cells(SMALL) if cell["estimator"] == "known"]
    assert sorted(known) == ["EIM", "EIM", "VIPS", "VIPS"]


@pytest.mark.parametrize("cell", EXPERIMENT.cells(SMALL), ids=lambda cell: "-".join(map(str, cell.values())))
def test_every_cell_is_measured(cell):
    if str(cell["method"]).startswith("scikit-learn"):
        pytest.importorskip("sklearn")
    outcome = EXPERIMENT.measure(SMALL, cell, 0)
    assert math.isfinite(outcome.figures["kl"])
    assert outcome.figures["kl"] > -4.0 * outcome.figures["kl_error"] - 1e-9
    assert outcome.cpu_seconds > 0.0


def test_methods_without_steps_are_all_at_the_same_start():
    still = dataclasses.replace(SMALL, n_iterations=0, n_steps=0, n_components=(2,))
    found = {
        EXPERIMENT.measure(still, cell, 3).figures["kl"]
        for cell in EXPERIMENT.cells(still)
        if cell["method"] in ("EIM", "EIM-US", "VIPS")
    }
    assert len({round(value, 9) for value in found}) == 1
    gan = next(cell for cell in EXPERIMENT.cells(still) if cell["method"] == "GAN")
    assert EXPERIMENT.measure(still, gan, 3).figures["kl"] == pytest.approx(found.pop(), abs=1e-4)  # single precision
