"""Experiments on the learners: targets, baselines, runs, result tables and figures."""

from __future__ import annotations

from experiments.random_mixtures import random_mixture

__all__ = ["random_mixture"]
