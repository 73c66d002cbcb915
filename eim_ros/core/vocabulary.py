"""Names of other libraries.

`NAMES` and `KEYWORDS` map our names to names of other libraries. Names with the same meaning are accepted. For the
others, `advice` chooses one sentence by the words in a name: "ik" is a word of `get_ik`, `SolveIK_All` and `IKSolver`.
`did_you_mean` handles misspelled names.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from eim_ros.core.errors import KeywordError, did_you_mean

MadeT = TypeVar("MadeT", bound=Callable[..., Any])

NAMES: dict[str, tuple[str, ...]] = {
    "solve": ("ik", "inverse_kinematics", "solve_ik", "ikine", "ikine_LM", "ik_LM", "compute_ik"),
    "solve_all": ("ik_all", "all_solutions", "solutions"),
    "solve_batch": ("solve_many", "ik_batch", "batch_ik"),
    "sample_batch": ("sample_many",),
    "follow": ("follow_path", "plan_path", "cartesian_path", "compute_cartesian_path"),
    "fk": ("forward", "fkine", "forward_kinematics", "compute_fk"),
    "dof": ("n_joints", "num_joints", "nq", "nv", "n", "n_dof", "n_dofs", "num_dofs"),
    "jacobian": ("jacob0", "jac", "compute_jacobian"),
    "lower": ("lower_limits", "lower_bounds", "lowerPositionLimit"),
    "upper": ("upper_limits", "upper_bounds", "upperPositionLimit"),
    "limits": ("joint_limits", "position_limits", "qlim"),
    "random": ("random_q", "random_configuration", "get_random_joint_values"),
    "tip_link": ("ee_link", "end_effector", "tip"),
    "base_link": ("base", "root_link"),
    "q": ("qs", "solutions", "configurations", "joint_positions", "joint_values", "positions"),
}  # attributes of `Robot`, `Sampler` and `Solutions`

TOPICS: tuple[tuple[str, str], ...] = (
    ("robots", "`eim list` prints the included robots"),
    (
        "collision collisions collides colliding",
        "kinematics.collision.collisions(robot, q, obstacles) lists them",
    ),
    ("plan path trajectory cartesian move", "Sampler(robot).follow(poses) gives a joint path"),
    ("reachable reach", "Sampler(robot).solve(pose) is true if the pose is reached"),
    ("nearest closest", "Sampler(robot).solve(pose, near=q) gives the solution closest to q"),
    ("ik ikine inverse solver", "Sampler(robot).solve(pose) gives one solution, Sampler(robot).solve_all(pose) all"),
    ("fk fkine forward", "Robot(source).fk(q) gives the poses of the tip"),
    (
        "plot show draw visualize display render",
        "`eim picture --robot NAME --pose ...` draws solutions",
    ),
    ("obstacle obstacles box world scene", "Sampler(robot).with_obstacles([...]) returns a changed copy"),
    ("tool tcp attach", "Sampler(robot).with_tool(pose) returns a changed copy"),
    ("set with lock fix", "Sampler(robot).with_constraints(limits=..., fixed=..., branch=...) returns a changed copy"),
    ("singular singularity condition", "Robot.manipulability(q) is 0 where the arm is singular"),
    ("link links frame frames", "Robot.with_tip(link) is the chain to another link"),
    ("plane ground half", "a large Box serves as a plane"),
    ("pose se3 transform", "a pose is x y z qx qy qz qw, or a (4, 4) array"),
    ("urdf chain model models wrapper load", 'Robot("panda") or Robot("arm.urdf") loads an arm'),
    ("train fit", "EM, EIM and GMMVI train models, and so does `eim train`"),
    ("neutral home qz qr q0", "it names no configurations: give joint values"),
    ("sample", "Robot.random() gives a configuration, Sampler(robot).sample(pose, n) gives solutions"),
    ("joints", "the joints are robot.joint_names, robot.dof is their number"),
    ("success converged solved", "bool(solutions) is true if there is one"),
    ("best first solution", "solutions[0] is the first in the order that was asked for"),
    ("error errors", "solutions.position_error [m] and solutions.orientation_error [rad] have an entry per row"),
    ("numpy array tolist list torch shape", "np.asarray(solutions) is the array of configurations"),
    ("dataframe pandas df csv save", "pandas.DataFrame(solutions.to_dict()) has a row for each solution"),
)  # words, and the advice for a name with one of them; the first match counts

VERBS = ("get", "compute", "calculate", "calc", "is")  # first words of names, which are ignored

DESCRIPTION = ("urdf", "urdf_path", "urdf_string", "urdf_file", "robot_description", "robot_name", "description")
KEYWORDS: dict[str, tuple[str, ...]] = {
    "near": ("q0", "q_init", "x0", "start", "start_state", "initial", "initial_guess", "init", "current", "seed_state"),
    "seeds": ("q0", "q_init", "x0", "start", "initial_guess", "solutions"),
    "seed": ("random_seed", "rng", "random_state", "generator"),
    "n": ("num_samples", "n_samples", "num", "count", "size", "num_solutions", "n_solutions", "samples", "k"),
    "lower": ("limits", "joint_limits", "q_limits", "bounds", "qlim"),
    "upper": ("limits", "joint_limits", "q_limits", "bounds", "qlim"),
    "limits": ("joint_limits", "q_limits", "bounds", "qlim", "lower", "upper"),
    "fixed": ("fixed_joints", "locked", "locked_joints"),
    "branch": ("elbow", "shoulder", "wrist"),
    "obstacles": ("world", "scene", "collision_objects"),
    "self_collision": ("collision", "collisions", "avoid_collisions", "check_collision", "collision_check"),
    "tolerances": ("mask", "weights", "dof_mask", "axis_mask"),
    "position_tolerance": ("tol", "tolerance", "eps", "pos_tol"),
    "orientation_tolerance": ("tol", "tolerance", "eps", "rot_tol"),
    "timeout": ("time_limit", "max_time", "time", "deadline", "duration", "timeout_s"),
    "pose": ("target", "goal", "target_pose", "goal_pose", "transform", "poses"),
    "poses": ("targets", "goals", "path", "waypoints", "pose"),
    "order": ("sort", "sort_by", "order_by", "ranking"),
    "posture": ("rest", "rest_pose", "nullspace", "null_space", "preferred"),
    "n_threads": ("threads", "num_threads", "n_jobs", "workers"),
    "max_step": ("largest_step", "step", "jump_threshold"),
    "diversity": ("explore", "spread"),
    "max_spacing": ("separation", "spacing", "resolution"),
    "guarantee": ("until", "certified", "completeness"),
    "density": ("distribution",),
    "centre": ("center", "position", "origin"),
    "size": ("dims", "dimensions", "extents", "sizes"),
    "radius": ("r",),
    "length": ("height", "h"),
    "tip": ("tip_link", "ee_link", "end_effector", "ee", "end_link"),
    "base": ("base_link", "root", "root_link"),
    "robot": DESCRIPTION,
    "source": DESCRIPTION,
    "sample_weight": ("sample_weights", "weights", "weight"),
    "validation_data": ("validation", "validation_set", "x_val", "eval_set", "held_out"),
}  # maps our keyword to its names in other libraries
SAME = (
    *("near", "seed", "n", "timeout", "n_threads", "max_step", "limits", "centre", "tip", "base", "robot", "source"),
    *("fixed", "self_collision", "size", "radius", "length"),
)  # keywords whose other names are accepted, because the values mean the same
PARTS: dict[str, tuple[str, ...]] = {
    "position": ("xyz", "pos", "translation", "target_position"),
    "orientation": ("quaternion", "quat", "quat_xyzw", "quaternion_xyzw", "orn", "rotation", "target_orientation"),
    "quaternion_wxyz": ("quat_wxyz",),
    "rpy": (),
    "degrees": ("deg",),
}  # keywords that together replace the keyword `pose`; `poses.taken_apart` reads them
PART_OF = {name: part for part, others in PARTS.items() for name in (part, *others)}

CONSTRAINTS = {
    "limits": "{joint: (lower, upper)}",
    "fixed": "{joint: value}",
    "branch": '{"elbow": "up"}',
    "obstacles": "[Box(...)]",
    "tolerances": "[x, y, z, about_x, about_y, about_z]",
    **dict.fromkeys(("self_collision", "position_only"), "True"),
    **dict.fromkeys(("position_tolerance", "orientation_tolerance", "clearance"), "..."),
}  # fields of `Constraints`, and a value
CONSTRAINED = {word: f"sampler.with_constraints({word}={value})" for word, value in CONSTRAINTS.items()}
STARTS = "start configurations to Robot.refine(seeds, pose), or near=q to Sampler.solve(pose)"
ONE_POSE = "one pose: (position, quaternion), or pose_from(position, rpy=...) in radians"
TO_LEARNER = "it to the learner, as in EM(n_components=10, seed=3)"
ELSEWHERE: dict[str, dict[str, str]] = {
    "max_restarts": dict.fromkeys(("q0", "q_init", "x0", "start", "initial_guess", "seed_state", "near"), STARTS),
    "near": CONSTRAINED
    | dict.fromkeys(
        ("tip", "base", "link_name", "link", "frame", "frame_id"), "links to Sampler(robot, tip=..., base=...)"
    )
    | dict.fromkeys(("all", "return_all", "all_solutions"), "the pose to sampler.solve_all(pose)"),
    "timeout": dict.fromkeys(
        ("max_iterations", "max_attempts", "num_attempts", "attempts", "iterations"), "timeout=seconds"
    ),
    "q": dict.fromkeys(("link", "end", "frame", "tip", "start"), "links to Robot(source, tip=..., base=...)")
    | dict.fromkeys(("degrees", "deg", "unit"), "angles in radians"),
    "robot": CONSTRAINED | dict.fromkeys(("tool", "tcp", "tool_offset"), "it to sampler.with_tool(pose)"),
    "pose": dict.fromkeys((*PART_OF, "x", "y", "z"), ONE_POSE)
    | {"euler": "angles in radians, as pose_from(position, rpy=...)"},
    "run": {word: f"run=RunOptions({word}=...)" for word in ("verbose", "checkpoint", "checkpoint_every", "resume")}
    | dict.fromkeys(("callback", "callbacks"), "run=RunOptions(callbacks=[...])")
    | dict.fromkeys(("seed", "random_state", "n_components", "n_iterations", "max_iter"), TO_LEARNER)
    | dict.fromkeys(("y", "Y", "context", "contexts"), "contexts and samples as one pair, fit((context, sample))"),
}  # maps a keyword of the call to settings that are given in another way
ELSEWHERE["poses"] = ELSEWHERE["pose"]


def other_name(kind: type, name: str) -> str | None:
    """Return the attribute of a class that another library calls `name`, or None."""
    known = vars(kind).get("__annotations__", {})
    meant = (ours for ours, others in NAMES.items() if name in others)
    return next((ours for ours in meant if ours in known or hasattr(kind, ours)), None)


def advice(name: str) -> str:
    """Return the end of an error message for an unknown name, by the words in it; empty if no topic has one of them.

    Examples
    --------
    >>> from eim_ros.core.vocabulary import advice
    >>> advice("calculateInverseKinematics")
    '; Sampler(robot).solve(pose) gives one solution, Sampler(robot).solve_all(pose) all'
    >>> advice("nonsense")
    ''
    """
    words = set(_words(name))
    return next((f"; {told}" for topic, told in TOPICS if words & set(topic.split())), "")


def _words(name: str) -> list[str]:
    """Return the words of a name in snake_case or CamelCase."""
    return [word.lower() for word in re.findall(r"[A-Z]+\d*(?![a-z])|[A-Z]?[a-z]+\d*", name)]


def missing_attribute(owner: object, name: str, instead: Mapping[str, str] | None = None) -> AttributeError:
    """Return the error for an unknown attribute, with what to use instead, or a similar name.

    `instead` maps names of other libraries to advice for this class; it comes first.
    """
    kind, hint = type(owner), ""
    if instead and name in instead:
        hint = f"; {instead[name]}"
    elif not name.startswith("_"):
        known = [
            each for each in {**vars(kind).get("__annotations__", {}), **dict.fromkeys(dir(kind))} if each[0] != "_"
        ]
        plain = "_".join(word for word in _words(name) if word not in VERBS)
        ours = plain if plain in known else other_name(kind, plain)
        hint = f"; did you mean {ours}?" if ours else advice(name) or did_you_mean(name, known)
    return AttributeError(f"a {kind.__name__} has no attribute {name!r}{hint}", name=name, obj=owner)


def check_keywords(given: Mapping[str, Any], known: Mapping[str, Any], call: str, named: Iterable[str] = ()) -> None:
    """Raise an error if a call was given a keyword that it does not have.

    `given` are the keywords that the call received, and `named` are other parameters of it, for suggestions. Raise
    `KeywordError` if a given keyword is not allowed. The message suggests the intended one.
    """
    if given.keys() <= known.keys():
        return
    wrong = next(name for name in given if name not in known)
    keywords = [*named, *known]
    meant = _meant(wrong, keywords) or f"; it has {', '.join(keywords)}"
    raise KeywordError(f"{call} has no keyword {wrong!r}{meant}", wrong)


def names_wrong_keywords(made: MadeT) -> MadeT:
    """Make a function, or a dataclass before `@dataclass`, translate keywords of other libraries: a decorator.

    The parts of a pose become one keyword `pose`. The result raises what `check_keywords` raises for other keywords.
    """
    if isinstance(made, type):
        init, known = vars(made)["__init__"], {entry.name: entry for entry in dataclasses.fields(made) if entry.init}

        @functools.wraps(init)
        def checked_init(self: Any, *args: Any, **keywords: Any) -> None:
            keywords = translated(keywords, known)
            check_keywords(keywords, known, made.__name__)
            init(self, *args, **keywords)

        type.__setattr__(made, "__init__", checked_init)
        return made
    names = dict.fromkeys(list(inspect.signature(made).parameters)[1:])

    @functools.wraps(made)
    def checked(*args: Any, **keywords: Any) -> Any:
        if keywords and not keywords.keys() <= names.keys():
            keywords = translated(joined(keywords, names) if len(args) < 2 else keywords, names)
            check_keywords(keywords, names, made.__qualname__)
        return made(*args, **keywords)

    return checked  # type: ignore[return-value]


def translated(given: dict[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Replace names from other libraries by ours, where only one of ours is meant and absent."""
    if given.keys() <= known.keys():
        return given
    names = {}
    for name, value in given.items():
        meant = [ours for ours in SAME if ours in known and name.lower() in KEYWORDS[ours]]
        is_ours = name in known or len(meant) != 1 or meant[0] in given or meant[0] in names
        names[name if is_ours else meant[0]] = value
    return names


def joined(given: dict[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the parts of a pose by a mapping under the call's keyword for it, if a position is given."""
    key = next((name for name in ("pose", "tool", "at") if name in known), "")
    parts = {PART_OF[name]: name for name in given if name in PART_OF and name not in known}
    if not key or key in given or "position" not in parts:
        return given
    pose = {part: given[name] for part, name in parts.items()}
    return {key: pose, **{name: value for name, value in given.items() if name not in parts.values()}}


def _meant(word: str, keywords: list[str]) -> str:
    same = [word, *(ours for ours, others in KEYWORDS.items() if word.lower() in others)]
    for keyword in keywords:
        for name in same:
            if name in ELSEWHERE.get(keyword, {}) and name not in keywords:
                return f"; give {ELSEWHERE[keyword][name]}"
    if meant := [keyword for keyword in keywords if keyword in same]:
        return f"; did you mean {' and '.join(meant)}?"
    return did_you_mean(word, keywords)
