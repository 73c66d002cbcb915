"""Line reaching: figures describe the fitted mixtures, and EIM stays on the line although EM does not."""

import dataclasses

import pytest
import torch

from eim_ros.core.parallel import JoblibWorkers
from experiments.harness import Work, run_experiment
from experiments.line_reaching import (
    EXPERIMENT,
    LEARNERS,
    LineFit,
    LineReachingConfig,
    LineReachingData,
    coverage,
    fit_mixture,
    line_reaching_data,
)
from experiments.pictures import THESIS

SMALL = LineReachingConfig(
    n_components=(1, 2),
    n_samples=1000,
    n_validation=200,
    n_test=1000,
    n_links=4,
    line_x=2.0,
    line_height=3.0,
    n_iterations=25,
    kl_bound=0.1,
)


@dataclasses.dataclass(frozen=True)
class Fits:
    data: LineReachingData
    fits: dict[tuple[str, int], LineFit]


@pytest.fixture(scope="module")
def result():
    return fits_of(SMALL, 1)


def fits_of(config, seed):
    data = line_reaching_data(config, seed)
    return Fits(
        data,
        {
            (learner, count): fit_mixture(config, data, learner, "network", count, seed)[0]
            for count in config.n_components
            for learner in LEARNERS
        },
    )


def test_figures_are_those_of_fresh_samples(result):
    for fit in result.fits.values():
        tip = result.data.arm.tip(fit.mixture.sample(20_000, torch.Generator().manual_seed(7)))
        distance = result.data.task.distance(tip)
        # four standard errors of the difference between a mean over 1000 and a mean over 20000 samples
        assert float(distance.mean()) == pytest.approx(fit.distance, abs=4.2 * float(distance.std()) / 1000**0.5)
        assert float((distance <= 0.1).double().mean()) == pytest.approx(fit.near, abs=4.2 * 0.5 / 1000**0.5)


def test_eim_stays_nearer_to_the_line_than_em_and_nearest_with_the_tip(result):
    for count in (1, 2):
        em, *others = (
            result.fits[learner, count].distance for learner in LEARNERS if learner != THESIS
        )  # settings of the thesis need more steps
        assert all(distance < 0.5 * em for distance in others)


def test_coverage_is_the_overlap_of_histograms():
    one, other = torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.0, 0.25, 0.75])
    assert coverage(one, one) == 1.0
    assert coverage(one, other) == 0.25
    assert coverage(one, torch.zeros(3)) == 0.0


def test_rows_are_equal_in_any_order_and_process(tmp_path, monkeypatch):
    """On one machine, all digits agree in reverse order, in two other processes, and with OMP_NUM_THREADS set."""
    pytest.importorskip("joblib")
    few = dataclasses.replace(
        SMALL,
        n_components=(2,),
        n_samples=200,
        n_validation=40,
        n_test=200,
        n_iterations=3,
        hidden_layers=(16,),
        learners=("EM", "EIM"),
        ratios=("network",),
    )

    def values(table):
        return [{name: value for name, value in row.items() if name != "cpu_seconds"} for row in table.rows]

    expected = values(run_experiment(EXPERIMENT, few, (0, 1), tmp_path / "first"))
    work = Work(EXPERIMENT, few)
    tasks = [({name: row[name] for name in ("method", "estimator", "n_components")}, row["seed"]) for row in expected]
    # in reverse order, but seed by seed, because only the data of the last seed are kept
    again = {number: work(tasks[number]) for number in sorted(range(len(tasks)), key=lambda i: (tasks[i][1], i))[::-1]}
    for number, row in enumerate(expected):
        assert {name: value for name, value in again[number].items() if name != "cpu_seconds"} == row
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert values(run_experiment(EXPERIMENT, few, (1, 0), tmp_path / "second", JoblibWorkers(2))) == expected
