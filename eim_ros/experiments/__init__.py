"""Experiments on the learners: targets, runs and tables; pictures are drawn in `viz`."""

from eim_ros.experiments.random_mixtures import random_mixture

__all__ = ["random_mixture"]
