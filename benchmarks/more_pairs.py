"""Accuracy of inverse-kinematics models by the number of training pairs, for EM, EIM, and EIM with kinematic inputs.

    python -m benchmarks.more_pairs [--robot iiwa14] [--pairs 20000 200000] [--seeds 1] [--learners EM EIM]
        [--output benchmarks/results/more_pairs.txt]

An exact pair of a position and a configuration takes less than a microsecond, so any number of pairs is affordable.
Each model has the defaults of `eim train` with 50 experts. The columns are the same as in `eim demo`: errors of raw
samples, their share within the limits, the entropy of the experts given the position, and the mean log density of 5,000
held-out pairs. The last column, "CPU s", is the CPU time of the training.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks._machine import conditions, print_table
from eim_ros.cli.demo import COLUMNS, LEARNERS
from eim_ros.cli.train import default_settings, learner_of
from eim_ros.ik import Training, collect, evaluate
from eim_ros.kinematics import Robot

N_TEST, N_EXPERTS = 5_000, 50
SHIFT = 1_000_000  # from the seed of the training pairs to that of the held-out pairs


def rows(robot: Robot, numbers: list[int], learners: list[str], n_seeds: int) -> Iterator[str]:
    titles = "".join(f"{title:>12}" for title in COLUMNS.values())
    yield f"\n{'learner':18}{'pairs':>10}{'seed':>6}{titles}{'CPU s':>10}"
    for name in learners:
        algorithm, kinematics = LEARNERS[name]
        for n_pairs in numbers:
            for seed in range(n_seeds):
                settings = default_settings("ik", algorithm, kinematics).replace(n_components=N_EXPERTS)
                training = Training(learner_of(settings), seed, smoothing=getattr(settings, "smoothing", None))
                pairs = collect(robot, n_pairs, "position", seed)
                began = time.process_time()
                model = training.run(pairs, robot).model
                seconds = time.process_time() - began
                found = evaluate(model, collect(robot, N_TEST, "position", seed + SHIFT), seed)
                values = "".join(f"{found[column]:12.3f}" for column in COLUMNS)
                yield f"{name:18}{n_pairs:10d}{seed:6d}{values}{seconds:10.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", default="iiwa14")
    parser.add_argument("--pairs", type=int, nargs="+", default=[20_000, 200_000])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--learners", nargs="+", choices=LEARNERS, default=list(LEARNERS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    head = [f"{conditions(['torch', 'numpy'])}; {args.robot}, {N_EXPERTS} experts, threads of torch: {args.threads}"]
    print_table(head, rows(Robot(args.robot), args.pairs, args.learners, args.seeds), args.output)


if __name__ == "__main__":
    main()
