"""Checks of keywords in public calls: the error for a wrong keyword names the intended one.

A table lists names that other libraries use, with ours; difflib recognises misspellings. The error is also a
`TypeError`, which Python raises for a wrong keyword.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from eim_ros.errors import KeywordError, did_you_mean

__all__ = ["check_keywords", "names_wrong_keywords"]

ClassT = TypeVar("ClassT", bound=type)

LIMITS = "constraints=Constraints(limits={joint: (lower, upper)})"
OTHER_WORDS: dict[str, tuple[str, ...]] = {
    "near": ("q0", "q_init", "x0", "start", "start_state", "initial", "initial_guess", "init", "current", "seed_state"),
    "seeds": ("q0", "q_init", "x0", "start", "initial_guess", "solutions"),
    "random_seed": ("seed", "rng", "random_state", "generator"),
    "rng": ("seed", "random_seed", "random_state", "generator"),
    "n": ("num_samples", "n_samples", "num", "count", "size", "num_solutions", "n_solutions", "samples"),
    "lower": ("limits", "joint_limits", "q_limits", "bounds", "qlim"),
    "upper": ("limits", "joint_limits", "q_limits", "bounds", "qlim"),
    "limits": ("joint_limits", "q_limits", "bounds", "qlim"),
    "position_tolerance": ("tol", "tolerance", "eps", "pos_tol"),
    "orientation_tolerance": ("tol", "tolerance", "eps", "rot_tol"),
    "timeout": ("time_limit", "max_time", "time", "deadline", "duration", "timeout_s"),
    "pose": ("target", "goal", "target_pose", "goal_pose", "transform", "poses"),
    "poses": ("targets", "goals", "path", "waypoints", "pose"),
    "order": ("sort", "sort_by", "order_by", "ranking"),
    "posture": ("rest", "rest_pose", "nullspace", "null_space", "preferred"),
    "n_threads": ("threads", "num_threads", "n_jobs", "workers"),
    "largest_step": ("max_step", "step", "jump_threshold"),
    "centre": ("position", "origin"),
}  # by our keyword: what else people call it
STARTS = "nothing: Robot.refine(seeds, pose) starts from given configurations"
HINTS: dict[str, dict[str, str]] = {
    "constraints": {
        **dict.fromkeys(("limits", "joint_limits", "q_limits", "bounds", "qlim", "lower", "upper"), LIMITS),
        **dict.fromkeys(("fixed", "locked"), "constraints=Constraints(fixed={joint: value})"),
        **dict.fromkeys(("obstacles", "world", "scene"), "constraints=Constraints(obstacles=[...])"),
        **dict.fromkeys(("self_collision", "collision"), "constraints=Constraints(self_collision=True)"),
        "tolerances": "constraints=Constraints(tolerances=[x, y, z, about_x, about_y, about_z])",
    },
    "max_restarts": dict.fromkeys(("q0", "q_init", "x0", "start", "initial_guess", "seed_state", "near"), STARTS),
    "pose": dict.fromkeys(("rpy", "euler"), "an orientation within the pose, pose_from(position, rpy=...)")
    | dict.fromkeys(("quaternion", "quat", "orientation"), "the orientation within the pose, (position, quaternion)"),
}  # by a keyword that the call has: how a thing is given that is no keyword itself
HINTS["poses"] = HINTS["pose"]


def check_keywords(given: Mapping[str, Any], known: Mapping[str, Any], call: str, named: Iterable[str] = ()) -> None:
    """`KeywordError` for a keyword that a call does not have.

    Parameters
    ----------
    given : mapping
        Keywords, by `**`.
    known : mapping
        Allowed keywords.
    call : str
        What was called.
    named : iterable of str
        Other parameters of the call.
    """
    if given.keys() <= known.keys():
        return
    wrong = next(name for name in given if name not in known)
    keywords = [*named, *known]
    meant = _meant(wrong, keywords) or f"; it has {', '.join(keywords)}"
    raise KeywordError(f"{call} has no keyword {wrong!r}{meant}", wrong)


def names_wrong_keywords(cls: ClassT) -> ClassT:
    """Make a dataclass raise what `check_keywords` raises: a decorator, before `@dataclass`."""
    made, known = vars(cls)["__init__"], {entry.name: entry for entry in dataclasses.fields(cls) if entry.init}

    @functools.wraps(made)
    def checked(self: Any, *args: Any, **keywords: Any) -> None:
        check_keywords(keywords, known, cls.__name__)
        made(self, *args, **keywords)

    type.__setattr__(cls, "__init__", checked)
    return cls


def _meant(word: str, keywords: list[str]) -> str:
    for keyword in keywords:
        if word in HINTS.get(keyword, {}):
            return f"; give {HINTS[keyword][word]}"
    if meant := [keyword for keyword in keywords if word.lower() in OTHER_WORDS.get(keyword, ())]:
        return f"; did you mean {' and '.join(meant)}?"
    return did_you_mean(word, keywords)
