"""Names that users are likely to try, and the corresponding names of the command line.

A verb accepts the names in `SAME`, which are keywords in Python, instead of its flags. Other names only add a hint to
the error message.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

from eim_ros.core.errors import did_you_mean

SAME = {
    "--context-kind": "--context",
    "--fixed": "--fix",
    "--limits": "--limit",
    "--n-components": "--experts",
    "--n-iterations": "--iterations",
    "--n-samples": "--samples",
    "--package-paths": "--package-path",
}
FLAGS = {  # flags of one letter; see `eim_ros.core.synonyms` for other names of flags
    "-a": "--algorithm",
    "-i": "--data",
    "-m": "--model",
    "-p": "--pose",
    "-r": "--robot",
    "-s": "--seed",
    "-x": "--pose",
}
_QUATERNION = "a quaternion follows the position in --pose X Y Z QX QY QZ QW"
_TOLERANCE = "give the setting position_tolerance [m] or orientation_tolerance [rad], as in --position-tolerance 1e-4"
FORMS = {  # wrong flag: (flag that a verb must have for the hint to apply, hint)
    "--all": ("--pose", "`eim solve-all` returns all solutions"),
    "--certified": ("--pose", "`eim solve-all --guarantee certified` proves that no solution is missing"),
    "--elbow": ("--pose", "give the setting branch, as in --branch elbow=up"),
    "--format": ("--json", "--json prints one JSON object"),
    "--gpu": ("--set", "give the setting run.device, as in --run.device cuda"),
    "--complete": ("--pose", "`eim solve-all --guarantee certified` proves that no solution is missing"),
    "--dataset.repo-id": ("--data", "a model is trained on a file that `eim collect` or `eim import` writes"),
    "--degrees": ("--rpy", "angles are in radians"),
    "--frame": ("--service", "poses are in the frame of the base link; with --service, give the setting frame"),
    "--lr": ("--set", "`--help-settings` lists the settings, such as --set ratio.learning_rate=0.001"),
    "--rot": ("--rpy", f"{_QUATERNION}; --rpy takes angles"),
    "--sort": ("--pose", "give the setting order, as in --order manipulability"),
    "--device": ("--set", "give the setting run.device, as in --run.device cuda"),
    "--output": ("--json", "--json prints the result, and `> FILE` writes it to a file"),
    "-o": ("--json", "--json prints the result, and `> FILE` writes it to a file"),
    "--orientation": ("--rpy", f"{_QUATERNION}; --rpy takes angles"),
    "--quat": ("--pose", _QUATERNION),
    "--quaternion": ("--pose", _QUATERNION),
    "--sphere": ("--box", "give the setting obstacles, as in 'obstacles=[{sphere: {centre: [0, 0, 1], radius: 0.1}}]'"),
    "--csv": ("--json", "--json prints one JSON object"),
    "--smooth": (
        "--poses",
        "every path is smoothed; give the setting objective to select how, as in --objective length",
    ),
    "--tol": ("--pose", _TOLERANCE),
    "--tolerance": ("--pose", _TOLERANCE),
    "--weights": ("--pose", "give the setting priority or order, as in --order manipulability"),
    "--verbose": ("--json", "--json prints everything that is known about the result"),
    "-v": ("--json", "--json prints everything that is known about the result"),
}
CHOICES = {"gmmvi": "GMMVI fits a log density instead of data: call it in Python (see docs/how_to/own_data.md)"}
_FK = "Robot(...).fk(q) in Python computes the pose of a configuration"
_SERVE = (
    "`ros2 launch eim_ros ik_server.launch.py robot:=panda` or, without ros2, `ik_server --robot panda` starts the node"
)
VERBS = {
    "benchmark": "`make bench` runs the benchmarks in the source tree",
    "bench": "`make bench` runs the benchmarks in the source tree",
    "all": "`eim solve-all` finds all solutions",
    "certify": "`eim solve-all --guarantee certified` proves that no solution is missing",
    "check": "`eim doctor` checks this machine, and `eim view ROBOT` shows a robot with the remarks about its file",
    "closest": "`eim solve-nearest-pose` returns the configuration nearest to a pose",
    "config": "verbs with settings, such as `eim sample`, have the flag --config FILE",
    "convert": "`eim import` converts recordings",
    "demo-planar": "use `eim demo --planar`",
    "data": "`eim collect` makes training data, and `eim import` reads recordings",
    "fit": "`eim train` fits a model",
    "fk": _FK,
    "forward": _FK,
    "gui": "`eim view` shows the arm in the browser",
    "generate": "`eim collect` makes training data",
    "ik": "`eim solve` finds one solution, `eim sample` finds many, and `eim solve-all` finds all",
    "describe": "`eim list robots` lists the included robots, and `eim view` shows a robot",
    "info": "`eim list robots` lists the included robots, and `eim view` shows a robot",
    "inverse": "`eim solve` finds one solution, `eim sample` finds many, and `eim solve-all` finds all",
    "launch": _SERVE,
    "learn": "`eim train` fits a model",
    "list-robots": "use `eim list robots`",
    "list-models": "use `eim list models`",
    "merge": "`eim import` merges recordings",
    "models": "use `eim list models`",
    "node": _SERVE,
    "path": "`eim follow` follows a path of poses",
    "plan": "`eim follow` follows a path of poses",
    "plot": "`eim picture` draws the arm to a file, and `eim view` shows it in the browser",
    "predict": "`eim sample --model` draws solutions from a model",
    "random": "`eim draw` draws independent random solutions",
    "reachability": "`eim map` surveys the poses that an arm reaches",
    "reach": "`eim map` surveys the poses that an arm reaches",
    "record": "the program demo_recorder records joint states, and `eim import` reads the bags",
    "recover": "use `eim import --repair`",
    "repair": "use `eim import --repair`",
    "request": "`eim sample --service /ik_server` sends the pose to a running node",
    "robots": "use `eim list robots`",
    "run": _SERVE,
    "serve": _SERVE,
    "server": _SERVE,
    "score": "`eim evaluate` evaluates a model, and `eim motion score` scores motions",
    "service": _SERVE,
    "show": "`eim view` shows the arm in the browser, and `eim picture` draws it to a file",
    "test": "`eim doctor` checks this machine",
    "trajectory": "`eim follow` follows a path of poses",
    "ui": "`eim view` shows the arm in the browser",
    "version": "use `eim --version`",
    "visualise": "`eim view` shows the arm in the browser, and `eim picture` draws it to a file",
    "visualize": "`eim view` shows the arm in the browser, and `eim picture` draws it to a file",
    "workspace": "`eim map` surveys the poses that an arm reaches",
}


def hint_for_verb(word: str, verbs: Iterable[str]) -> str:
    """Return the end of the message about an unknown verb."""
    from eim_ros.kinematics import SHIPPED_ROBOTS

    text = VERBS.get(word.lower().replace("_", "-"))
    if not text and (word in SHIPPED_ROBOTS or word.endswith((".urdf", ".xacro", ".xml"))):
        text = f"the verb must come before the robot, as in `eim solve {word} --pose 0.4 0.1 0.5`"
    return f"; {text}" if text else did_you_mean(word, verbs) or f"; the verbs are {', '.join(verbs)}"


def hint_for_flag(word: str, known: Collection[str], settings: Iterable[str] = (), shown: Iterable[str] = ()) -> str:
    """Return the end of the message about an unknown flag: a hint, or the list of flags if no name is similar."""
    name = word.replace("_", "-")
    if FLAGS.get(name) in known:
        return f"; did you mean {FLAGS[name]}?"
    needed, text = FORMS.get(name, ("", ""))
    if needed in known:
        return f"; {text}"
    near = did_you_mean(word, known) or did_you_mean(word, [f"--{each.replace('_', '-')}" for each in settings])
    return near or f"; the flags are {', '.join(shown)}"


def is_misspelt(word: str, known: Collection[str]) -> bool:
    """Return whether a word is probably a misspelt flag rather than the name of a setting."""
    return bool(difflib.get_close_matches(word, known, cutoff=0.85))
