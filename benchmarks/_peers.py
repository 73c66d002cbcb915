"""Solvers of inverse kinematics with one interface: ours, and peers that are called as their documentation recommends.

A solver takes a pose and returns an attempt, which is a function without arguments that returns a configuration or
None. Only the attempt is timed. Preparation is not timed, such as the conversion of the pose to the peer's type or the
choice of a seed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks._peers_case import Case, Solver, Unsupported
from benchmarks._peers_closed_form import (
    eaik,
    eaik_solutions,
    eaik_solver,
    frankik,
    frankik_solutions,
    opw,
    opw_solutions,
    self_motion_charts,
    ssik,
    ssik_arms,
    ssik_artifact,  # fmt: skip
)
from benchmarks._peers_iterative import kdl, mink, optik, pinocchio_loop, roboplan, roboticstoolbox, trac_ik
from benchmarks._peers_ours import default_call

__all__ = [
    "OURS", "PEERS", "Case", "Solver", "Unsupported", "eaik_solutions", "eaik_solver", "frankik_solutions",
    "opw_solutions", "pinocchio_loop", "roboticstoolbox", "self_motion_charts", "ssik_arms", "ssik_artifact", "trac_ik",
]  # fmt: skip

OURS = "eim_ros"  # prefix of the names of our solvers

PEERS: dict[str, Callable[[Case, np.random.Generator], Solver]] = {
    f"{OURS}, default call": default_call,
    "ssik": ssik,
    "EAIK": eaik,
    "rs-opw-kinematics": opw,
    "frankik": frankik,
    "roboticstoolbox, C++ LM (chan)": roboticstoolbox,
    "optik": optik,
    "RoboPlan, simple IK": roboplan,
    "TRAC-IK (pytracik, 100 ms)": trac_ik,
    "KDL LMA (PyKDL)": kdl,
    "pinocchio, Python loop": pinocchio_loop,
    "mink": mink,
}
