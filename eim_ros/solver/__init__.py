"""The compiled solver, written in C++ in the headers of this folder.

The solver contains forward kinematics, closed forms, iterative solution from seeds and with restarts, continuation,
null-space optimisation, and mixtures of experts. It is built once for each instruction set. `_solver.pyi` describes its
interface.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eim_ros.core.native import load_native

__all__ = [
    "MOST_JOINTS",
    "NO_EXPERT",
    "SPACING",
    "Chain",
    "ClosedForm",
    "StepOptions",
    "Experts",
    "General7R",
    "ParameterisedForm",
    "Patience",
    "SearchOptions",
    "SelfMotions",
    "ContinuationOptions",
    "Task",
    "acos",
    "atan2",
    "cos",
    "exp",
    "log",
    "sin",
    "nearest_on_curve",
    "chart_poses",
    "distinct_rows",
    "farthest_rows",
    "fill_self_motions",
    "first_not_rigid",
    "in_revolution_of",
    "is_within",
    "log_gate",
    "path_reach",
    "shortest_path",
    "search_poses",
    "solve_on_curves",
    "solve_poses",
    "swept_self_motions",
    "trace_components",
    "revolutions",
    "rigid_copy",
]

if TYPE_CHECKING:
    from eim_ros.solver._solver import (
        MOST_JOINTS,
        NO_EXPERT,
        SPACING,
        Chain,
        ClosedForm,
        ContinuationOptions,
        Experts,
        General7R,
        ParameterisedForm,
        Patience,
        SearchOptions,
        SelfMotions,
        StepOptions,
        Task,
        acos,
        atan2,
        chart_poses,
        cos,
        distinct_rows,
        exp,
        farthest_rows,
        fill_self_motions,
        first_not_rigid,
        in_revolution_of,
        is_within,
        log,
        log_gate,
        nearest_on_curve,
        path_reach,
        revolutions,
        rigid_copy,
        search_poses,
        shortest_path,
        sin,
        solve_on_curves,
        solve_poses,
        swept_self_motions,
        trace_components,
    )
else:
    _native = load_native("eim_ros.solver._solver", __all__)
    globals().update({name: getattr(_native, name) for name in __all__})
