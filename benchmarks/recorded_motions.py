"""Motion priors of recorded bags with default settings, compared with other methods of motion learning.

    python -m experiments.table_demonstrations FOLDER --motions 250 --seed 0   # the bag FOLDER/panda_table
    eim demo --planar --output FOLDER/planar                                   # the bag FOLDER/planar/demonstrations
    pip install -r requirements/bench.txt                                      # missing peers are left out
    python -m benchmarks.recorded_motions FOLDER/panda_table FOLDER/planar/demonstrations
        [--output benchmarks/results/recorded_motions.txt]

The node `demo_recorder` wrote both bags, and the import of bags reads them. In each split, every fifth motion is held
out. Methods, columns and marks are the same as in `lasa.py`, for different numbers of experts. Distances are norms over
the joints [mrad]. The ends of the first eight held-out motions of a split are prescribed. The noise that
movement_primitives fits is below 1e-5 rad, which is too small even for its training motions. If the covariance of this
method is singular, there is no log-likelihood.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from benchmarks.lasa import N_POINTS, Groups, compare
from eim_ros.bags.importing import MotionForm, import_motions
from eim_ros.bags.selection import Selection

COMPONENTS = (2, 5, 10)
EVERY = 5  # every fifth motion is held out
NOISES = (0.001, 0.003, 0.01, 0.03)  # noises of the ProMPs [rad]
SELECTION = Selection(skipped_labels=("pause",))  # label of the arm at rest between two motions


def cases(bags: list[Path], n_splits: int) -> Iterator[tuple[str, int, Groups]]:
    """Yield the cases of all bags, see `compare`."""
    for bag in bags:
        data_set, _ = import_motions([bag], SELECTION, MotionForm(N_POINTS, trim=True))
        motions = data_set.sample.reshape(len(data_set), N_POINTS, -1)
        rows = np.arange(len(motions)) % EVERY
        splits = [(motions[rows != fold], motions[rows == fold]) for fold in range(n_splits)]
        for n in COMPONENTS:
            yield f"{bag.name:16} {motions.shape[2]:6} {len(motions):7} {n:7}", n, [splits]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bags", type=Path, nargs="+")
    parser.add_argument("--splits", type=int, default=2, help="number of splits, up to 5")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="also write the table to this file")
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", RuntimeWarning)  # gmr warns about components without points
    title = f"Recorded bags, {N_POINTS} points per motion, {args.splits} splits, seed {args.seed}"
    counts = f"{'bag':16} {'joints':>6} {'motions':>7} {'experts':>7}"
    table = compare(title, counts, cases(args.bags, args.splits), NOISES, "mrad", args.seed)
    if args.output:
        args.output.write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main()
