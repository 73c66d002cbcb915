"""Use one thread for linear algebra in tests and in the processes that they start, like `make test`.

The matrices in tests are small, so several threads would mostly wait for each other on a busy machine.

Hypothesis draws the same examples in each run, without a time limit per example. `make fuzz` draws other examples.
"""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

# to find scripts, benchmarks and experiments; last, because `colcon test` must import the installed eim_ros
sys.path.append(str(Path(__file__).resolve().parents[1]))

settings.register_profile("same_examples", derandomize=True, deadline=None, database=None, print_blob=True)
settings.load_profile("same_examples")
os.environ.setdefault("OMP_NUM_THREADS", "1")

# These files take longest. If such a file came last, most cores would be idle at the end.
FIRST = [
    "test_site.py",
    "cli/test_demo_planar.py",
    "nodes/demonstrator/test_demonstrator.py",
    "nodes/trainer/test_trainer.py",
    "nodes/test_security.py",
    "cli/test_demo.py",
    "nodes/planar_simulator/test_planar_simulator.py",
    "solver/test_templates.py",
    "learning/test_placement.py",
]

# The tests in these files depend on compiled code. They get the marker `compiled`, and `make test-compiled` runs them
# with another module.
COMPILED = [
    *(
        f"ik/test_{name}.py"
        for name in (
            "answers_of_drawn_arms",
            "batch",
            "branches",
            "certified",
            "closed_form",
            "components",
            "constraints",
            "diversity",
            "draw",
            "empty_answers",
            "general_6r",
            "manifold",
            "nearest",
            "nearest_pose",
            "order",
            "other_robots",
            "partial_tasks",
            "path",
            "path_search",
            "posture",
            "prior",
            "revolutions",
            "sampler",
            "sampler_search",
            "selection",
            "engine",
            "gradients",
            "slices",
            "slides",
            "solutions",
            "sweeps",
            "without_model",
        )
    ),
    *(
        f"kinematics/test_{name}.py"
        for name in (
            "branches",
            "continuation",
            "null_space_descent",
            "refinement",
            "relative_pose",
            "robot",
            "self_motion",
            "tolerances",
        )
    ),
    *(f"learning/models/native/test_{name}.py" for name in ("quadratic_forms", "softmax")),
    "solver/test_refining.py",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {Path(__file__).parent / name: place for place, name in enumerate(FIRST)}
    compiled = {Path(__file__).parent / name for name in COMPILED}
    missing = [str(path) for path in [*places, *compiled] if not path.exists()]
    if missing:
        raise pytest.UsageError(
            f"test/conftest.py lists files that do not exist: {', '.join(missing)}; remove them from FIRST or COMPILED"
        )
    for item in items:
        if item.path in compiled:
            item.add_marker(pytest.mark.compiled)
    items.sort(key=lambda item: places.get(item.path, len(places)))
