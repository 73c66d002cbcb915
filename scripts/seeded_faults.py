"""Find which tests detect deliberate errors: apply each fault of test/seeded_faults.toml to a copy, and run tests.

    python scripts/seeded_faults.py                     # all faults without a record
    python scripts/seeded_faults.py --again motion ik   # faults of these packages once more

The record `found_by` of a fault is written into the file after each fault. Therefore, a run can be interrupted and
continued. A test counts only if it fails with the fault and passes without it. The time for each fault is limited. Only
endless loops and very slow folders of tests reach the limit.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import tomllib

ROOT = Path(__file__).resolve().parents[1]
FAULTS = ROOT / "test/seeded_faults.toml"
SECONDS = 120  # limit of CPU time of the tests of one fault [s]
WAITING = 1800  # limit of their wall time [s]; tests of nodes mostly wait, which takes no CPU time
MOST_DISTURBED = 5  # a fault is not found if more than this number of its failing tests also fail without it
FAILED = re.compile(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", re.MULTILINE)
NOTHING = "nothing"


def copied(folder: Path) -> Path:
    """Return a copy of the tree without ignored files, except the compiled modules and the environment."""
    tree = folder / "tree"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tree / name)
    for module in (ROOT / "eim_ros").rglob("*.so"):  # copied last; modules must be newer than their sources
        shutil.copy(module, tree / module.relative_to(ROOT))
    (tree / ".venv").symlink_to((ROOT / ".venv").resolve())
    return tree


def environment(tree: Path) -> dict[str, str]:
    """Return the variables of `make test`, with the modules of the copy first."""
    return {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1", "ROS_PYTHON_CHECK_FIELDS": "1"}


def best_instruction_set(tree: Path) -> str:
    """Return the instruction set of the modules that are imported here."""
    code = "import eim_ros.solver as s; print(s.Chain.__module__.rpartition('_')[2])"
    return subprocess.check_output([sys.executable, "-c", code], cwd=tree, env=environment(tree), text=True).strip()


def build(tree: Path) -> None:
    """Compile the modules whose sources have changed, for one instruction set and with little optimisation."""
    options = {"EIM_ROS_INSTRUCTION_SETS": best_instruction_set(tree), "EIM_ROS_OPTIMISATION": "-O1"}
    words = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    subprocess.run(words, cwd=tree, env={**environment(tree), **options}, check=True, capture_output=True)


def first_failure(tree: Path, tests: list[str], left_out: list[str]) -> str:
    """Return the first test that fails, or an empty text."""
    words = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]
    words += [f"--deselect={test}" for test in left_out]

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))

    process = subprocess.Popen(
        words,
        cwd=tree,
        env=environment(tree),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=limited,
    )
    try:
        told, _ = process.communicate(timeout=WAITING)
    except subprocess.TimeoutExpired:
        told = ""
    finally:
        with contextlib.suppress(ProcessLookupError):  # end processes that a test has left behind
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    found = FAILED.search(told)
    return found[1] if found else ""


def finder(tree: Path, fault: dict[str, Any], kept: dict[Path, bytes]) -> str:
    """Return a test that finds a fault."""
    path = tree / fault["file"]
    sound = path.read_text(encoding="utf-8")
    if sound.count(fault["old"]) != 1:
        return ""
    faulty, is_compiled = sound.replace(fault["old"], fault["new"]), path.suffix == ".hpp"

    def apply(text: str) -> None:
        path.write_text(text, encoding="utf-8")
        if is_compiled and text == faulty:
            build(tree)
        elif is_compiled:
            for module, content in kept.items():
                module.write_bytes(content)

    left_out: list[str] = []
    try:
        while len(left_out) < MOST_DISTURBED:
            apply(faulty)
            failing = first_failure(tree, fault["tests"], left_out)
            if not failing:
                return NOTHING
            apply(sound)
            if not first_failure(tree, [failing], []):
                return failing
            left_out.append(failing)
        return NOTHING
    finally:
        apply(sound)


def record(name: str, found_by: str) -> None:
    """Write the result of a fault into the file."""
    text = FAULTS.read_text(encoding="utf-8")
    begin = text.index(f'name = "{name}"\n')
    place = text.index("found_by = ", begin)
    end = text.index("\n", place)
    quoted = found_by.replace("\\", "\\\\").replace('"', '\\"')
    FAULTS.write_text(f'{text[:place]}found_by = "{quoted}"{text[end:]}', encoding="utf-8")


def main() -> None:
    """Try the faults that the arguments select, and record which test finds each fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--again", nargs="*", metavar="PACKAGE", help="packages to try again (default: all)")
    again = parser.parse_args().again
    faults = tomllib.loads(FAULTS.read_text(encoding="utf-8"))["fault"]
    with tempfile.TemporaryDirectory() as folder:
        tree = copied(Path(folder))
        kept = {module: module.read_bytes() for module in (tree / "eim_ros").rglob("*.so")}
        # faults that need a build come last
        for fault in sorted(faults, key=lambda fault: fault["file"].endswith(".hpp")):
            is_wanted = not fault["found_by"] if again is None else not again or fault["package"] in again
            if is_wanted:
                found_by = finder(tree, fault, kept)
                record(fault["name"], found_by)
                print(f"{fault['package']}: {fault['name']}: {found_by or 'the text has changed'}", flush=True)


if __name__ == "__main__":
    main()
