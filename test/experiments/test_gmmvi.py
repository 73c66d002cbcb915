"""Experiment of variational inference: what is done is not done again, bad words are told first."""

import pytest

from eim_ros.errors import ConfigurationError
from eim_ros.experiments import gmmvi
from eim_ros.experiments.gmmvi import GMMVIExperimentConfig, run_gmmvi
from eim_ros.experiments.gmmvi_problems import PROBLEMS
from eim_ros.inference.variational import ALGORITHMS

SMALL = {"targets": ("gmm-20",), "algorithms": ("SEPYFUX",), "budget": 0.02, "n_evaluated": 100}


def test_runs_that_are_done_are_not_done_again(tmp_path, monkeypatch):
    first = run_gmmvi(GMMVIExperimentConfig(n_seeds=1, **SMALL), tmp_path, seed=3)
    assert [run.seed for run in first] == [3]
    assert 0 < first[0].evaluations <= 6000
    assert first[0].n_components == 5
    assert 0 <= first[0].modes <= 10
    more = run_gmmvi(GMMVIExperimentConfig(n_seeds=2, **SMALL), tmp_path, seed=3)
    assert more[0] == first[0]
    assert more[1].seed == 4
    monkeypatch.setattr(gmmvi, "_done", None)
    seen = []
    assert run_gmmvi(GMMVIExperimentConfig(n_seeds=2, **SMALL), tmp_path, 3, seen.append) == more == seen


def test_runs_of_other_settings_are_done_anew(tmp_path):
    first = run_gmmvi(GMMVIExperimentConfig(n_seeds=1, **SMALL), tmp_path)
    other = run_gmmvi(GMMVIExperimentConfig(n_seeds=1, **SMALL | {"budget": 0.03}), tmp_path)
    assert other[0].evaluations > first[0].evaluations


def test_planar_robot_counts_the_goals_that_are_found(tmp_path):
    settings = {**SMALL, "targets": ("planar-4",), "budget": 0.001}
    (run,) = run_gmmvi(GMMVIExperimentConfig(n_seeds=1, **settings), tmp_path)
    assert 1 <= run.modes <= 4


def test_wrong_word_is_told_before_the_work(tmp_path):
    config = GMMVIExperimentConfig(algorithms=("SAMTRON", "SIMPLE"), n_seeds=1)
    with pytest.raises(ConfigurationError, match="'SIMPLE' names no algorithm"):
        run_gmmvi(config, tmp_path)
    assert not list(tmp_path.iterdir())


def test_published_figures_are_of_known_algorithms():
    for problem in PROBLEMS.values():
        assert set(problem.published) <= set(ALGORITHMS)
