"""Experiments on the learners: targets, runs and tables; pictures are drawn in `viz`."""

from __future__ import annotations

from experiments.random_mixtures import random_mixture

__all__ = ["random_mixture"]
