"""Groups of names with the same meaning in this package and in others, from which error messages suggest ours.

Each group begins with our names. Further names come from MoveIt, TRAC-IK, pick_ik, ikpy, roboticstoolbox, scikit-learn,
LeRobot and gmmvi. Words have the form of flags; keywords and settings are compared with "-" instead of "_".
"""

from __future__ import annotations

from collections.abc import Iterable

GROUPS = tuple(
    tuple(words.split())
    for words in (
        # requests
        "pose target target-pose goal goal-pose position pos xyz translation tep end-effector-pose target-frame",
        "n n-samples num-samples n-solutions num-solutions max-solutions count num number num-results",
        "near start q0 q-init qinit init initial initial-guess initial-position initial-q initial-state x0 current "
        "current-state q-start seed-config seed-q seed-state start-state rest-pose",
        "seed random-seed random-state rng generator",
        "timeout timeout-s max-time time-limit ilimit slimit num-attempts n-attempts max-attempts n-restarts",
        "poses path trajectory waypoints",
        "max-spacing spacing resolution grid",
        "n-threads threads n-jobs num-threads num-workers",
        "revolutions no-revolutions",
        # arms and constraints
        "sampler iksolver ik-solver compute-ik",
        "source robot urdf urdf-file urdf-filepath urdf-path urdf-string robot-description",
        "tip tip-link tip-name ee ee-link ee-name eef end-effector end-effector-link end-link link link-name "
        "group group-name planning-group tcp tool-frame",
        "base base-frame base-link base-name root root-link",
        "limits joint-limits bounds qlim",
        "fixed fixed-joints locked-joints active-links-mask",
        "self-collision avoid-collisions avoid-self-collision check-collision check-collisions collision-check "
        "collision-checking collisions",
        "obstacles obstacle box world scene",
        "tolerances mask",
        "position-tolerance position-threshold linear-tolerance pos-tol tol tolerance eps",
        "orientation-tolerance orientation-threshold angular-tolerance rot-tol tol tolerance eps",
        "sample value x",
        "size dims dimensions extents",
        "radius r",
        "length height",
        # learning
        "n-components experts n-experts num-experts num-components num-initial-components components n-clusters "
        "n-gaussians k",
        "n-iterations iterations max-iter max-iterations n-iter num-iterations epochs n-epochs num-epochs steps",
        "tolerance tol",
        "covariance covariance-type",
        "covariance-floor reg-covar",
        "n-starts n-init",
        "algorithm algo learner method",
        "samples size",
        # files
        "data dataset file input",
        "output out",
        "config config-file",
        "rate fps frequency",
        "joint-topic topic",
    )
)


def plain(word: str) -> str:
    """Return a flag, keyword or setting in the form of the groups."""
    return word.lower().replace("_", "-").lstrip("-")


def by_form(known: Iterable[str]) -> dict[str, str]:
    """Return the words by their plain forms. If several words have the same form, the first is kept (--n before -n)."""
    forms = dict[str, str]()
    for name in known:
        forms.setdefault(plain(name), name)
    return forms


def synonyms(word: str, known: Iterable[str]) -> list[str]:
    """Return the known words that have the same meaning as another word.

    Examples
    --------
    >>> from eim_ros.core.synonyms import synonyms
    >>> synonyms("ee_link", ["robot", "tip"]), synonyms("--ee-link", ["--robot", "--tip"])
    (['tip'], ['--tip'])
    """
    forms, form = by_form(known), plain(word)
    return list(dict.fromkeys(forms[other] for group in GROUPS if form in group for other in group if other in forms))
