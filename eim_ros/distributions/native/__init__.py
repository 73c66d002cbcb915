"""Compiled modules of the distributions, for the instruction set of this processor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eim_ros.numerics.native import load_native

__all__ = ["SelectedForms"]

if TYPE_CHECKING:
    from eim_ros.distributions.native._quadratic_forms import SelectedForms
else:
    SelectedForms = load_native("eim_ros.distributions.native._quadratic_forms", __all__).SelectedForms
