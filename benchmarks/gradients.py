"""Forward and backward pass of batches of torch tensors, compared with the same call on arrays.

The calls alternate on one thread. A time is the minimum CPU time per pose over several runs. "backward" is the time of
`q.sum().backward()`. The ratio is (forward + backward) / plain.

    python -m benchmarks.gradients [--quick] [--output FILE]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from benchmarks._machine import conditions, print_table
from eim_ros.ik import Sampler
from eim_ros.kinematics import quaternion_from_matrix

ARMS = ("ur5e", "panda", "iiwa14", "gen3")
ENOUGH = 1e6  # [s]


def seconds(n_runs: int, sampler: Sampler, poses: np.ndarray, n: int) -> tuple[float, float, float]:
    """Return the minimum CPU times of a plain call, a forward and a backward pass [s]."""
    found = []
    for _ in range(n_runs):
        tensor = torch.from_numpy(poses.copy()).requires_grad_()
        moments = [time.process_time()]
        for given in (poses, tensor):
            if n == 1:
                solutions = sampler.solve_batch(given, seed=0, timeout=ENOUGH, n_threads=1)
            else:
                solutions = sampler.sample_batch(given, n, seed=0, timeout=ENOUGH, n_threads=1)
            moments.append(time.process_time())
        solutions.q.sum().backward()
        moments.append(time.process_time())
        found.append(np.diff(moments))
    plain, forward, backward = np.min(found, axis=0).tolist()
    return plain, forward, backward


def rows(quick: bool) -> Iterator[str]:
    yield f"{'arm':10s}{'poses':>18s}{'rows':>6s}{'plain us':>10s}{'forward us':>12s}{'backward us':>13s}{'ratio':>8s}"
    for name in ARMS:
        sampler = Sampler(name)
        q = sampler.robot.random(1000 if quick else 20_000, np.random.default_rng(0))
        transforms = sampler.robot.fk(q)
        for n, form in ((1, "(n, 4, 4)"), (1, "(n, 7)"), (20, "(n, 4, 4)")):
            poses = transforms if n == 1 else transforms[: len(q) // 10]
            if form == "(n, 7)":
                poses = np.array([[*pose[:3, 3], *quaternion_from_matrix(pose)] for pose in transforms[: len(q) // 10]])
            plain, forward, backward = seconds(3 if quick else 9, sampler, poses, n)
            each = 1e6 / len(poses)
            ratio = (forward + backward) / plain
            times = f"{each * plain:10.2f}{each * forward:12.2f}{each * backward:13.2f}"
            yield f"{name:10s}{len(poses):8d} {form:9s}{n:6d}{times}{ratio:8.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    print_table([conditions(["numpy", "torch"]), "seed 0, one thread"], rows(args.quick), args.output)


if __name__ == "__main__":
    main()
