"""Run SAMTRON with gmmvi from PyPI, which is the implementation by the authors of the paper, on one thread.

    python benchmarks/_gmmvi_worker.py PROBLEM.npz SETTINGS.json    prints one JSON object

If "defaults" is true, the package's default settings are used.

The program is a separate process because gmmvi needs TensorFlow, which may require another Python interpreter.
TensorFlow traces its graphs during the first N_TRACED iterations, whose time is reported separately.
"""

from __future__ import annotations

import json
import os
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import tensorflow as tf
from gmmvi.configs import get_default_algorithm_config, get_default_experiment_config, update_config
from gmmvi.experiments.target_distributions import gmm, logistic_regression, planar_robot, student_t_mixture
from gmmvi.models.full_cov_gmm import FullCovGMM
from gmmvi.models.gmm_wrapper import GmmWrapper
from gmmvi.optimization.gmmvi import GMMVI

N_TRACED = 3
N_SCORED = 20_000
EXPERIMENTS = {"planar4": "planar_robot_4", "gmm20": "gmm20", "stm20": "stm20", "breast-cancer": "breast_cancer"}


def target_of(name: str, problem: dict[str, np.ndarray]):
    if name == "planar4":
        return planar_robot.make_four_goal()
    if name == "breast-cancer":
        return logistic_regression.make_breast_cancer()
    weights = np.full(len(problem["target_means"]), 1.0 / len(problem["target_means"]))
    parameters = (weights, problem["target_means"], problem["target_covariances"])
    if name == "gmm20":
        return gmm.GMM_LNPDF(*(tf.constant(value, tf.float32) for value in parameters))
    return student_t_mixture.StudentTMixture_LNPDF(*parameters)


def _published(settings: dict) -> dict:
    """Return the settings of gmmvi that correspond to ours."""
    return {
        "num_component_adapter_config": {
            "del_iters": settings["adaptation.delete_after"],
            "add_iters": settings["adaptation.add_every"],
            "num_database_samples": settings["adaptation.n_candidates"],
        },
        "component_stepsize_adapter_config": {
            "initial_stepsize": settings["component_step.first"],
            "min_stepsize": 0.001,
            "max_stepsize": 1.0,
        },
        "sample_selector_config": {
            "desired_samples_per_component": settings["n_samples"],
            "ratio_reused_samples_to_desired": 0.0,
        },
        "weight_stepsize_adapter_config": {
            "initial_stepsize": settings["weight_step.first"],
            "min_stepsize": settings["weight_step.smallest"],
            "max_stepsize": settings["weight_step.largest"],
        },
    }


def _needed(learner: GMMVI, last: int) -> int:
    """Return the number of evaluations that the next iteration may need, by the rule with which eim_ros stops."""
    selector = learner.sample_selector
    most = selector.desired_samples_per_component * int(learner.model.num_components)
    return min(most, last) if last > 0 and int(selector.reused_samples_per_component) > 0 else most


def main() -> None:
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    problem = dict(np.load(sys.argv[1]))
    with open(sys.argv[2], encoding="utf-8") as file:
        settings = json.load(file)
    tf.random.set_seed(settings["seed"])
    chosen = {} if settings.get("defaults") else _published(settings)
    experiment = get_default_experiment_config(EXPERIMENTS[settings["name"]])
    config = update_config(experiment, update_config(get_default_algorithm_config("SAMTRON"), chosen))
    target = target_of(settings["name"], problem)
    start = [tf.constant(problem[name], tf.float32) for name in ("weights", "means", "covariances")]
    learner = GMMVI.build_from_config(
        config=config,
        target_distribution=target,
        model=GmmWrapper.build_from_config(model=FullCovGMM(*start), config=config),
    )
    began, iterations, traced, evaluations, last = time.process_time(), 0, (0.0, 0), 0, 0
    while evaluations + _needed(learner, last) <= settings["budget"]:
        learner.train_iter()
        iterations += 1
        last = int(learner.sample_db.num_samples_written) - evaluations
        evaluations += last
        if iterations == N_TRACED:
            traced = (time.process_time() - began, evaluations)
    seconds = time.process_time() - began
    sample = learner.model.sample(N_SCORED)[0]
    log_target = np.asarray(target.log_density(sample), dtype=float)
    elbo = float(np.mean(log_target - np.asarray(learner.model.log_density(sample), dtype=float)))
    print(
        json.dumps(
            {
                "seconds": seconds - traced[0],
                "evaluations": evaluations - traced[1],
                "tracing": traced[0],
                "traced_evaluations": traced[1],
                "elbo": elbo,
                "n_components": int(learner.model.num_components),
            }
        )
    )


if __name__ == "__main__":
    main()
