"""Compiled functions for the models, built for the instruction set of this processor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eim_ros.core.native import load_native

__all__ = ["SelectedForms", "em_step", "k_means", "softmax_lagrangian", "tilted_moments"]

if TYPE_CHECKING:
    from eim_ros.learning.models.native._quadratic_forms import (
        SelectedForms,
        em_step,
        k_means,
        softmax_lagrangian,
        tilted_moments,
    )
else:
    _module = load_native("eim_ros.learning.models.native._quadratic_forms", __all__)
    SelectedForms, em_step, k_means, softmax_lagrangian, tilted_moments = (getattr(_module, name) for name in __all__)
