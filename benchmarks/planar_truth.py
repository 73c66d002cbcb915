"""Ground truth of the planar robots by importance sampling: log-normaliser, entropy, and shares of the goals.

    python -m benchmarks.planar_truth [--draws 2000000] [--seed 5]

PlanarRobot-4 is compared with an independent estimate, log Z = -10.6145 +- 0.0015. By symmetry, its goals at (0, 7) and
(0, -7) have the same mass.
"""

from __future__ import annotations

import argparse
import time

import torch

from experiments.targets import planar_robot, planar_truth

KNOWN, KNOWN_ERROR = -10.6145, 0.0015


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2_000_000)
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    for n_goals in (4, 1):
        start = time.process_time()
        truth = planar_truth(planar_robot(n_goals), args.draws, torch.Generator().manual_seed(args.seed))
        found = truth.log_normaliser
        shares = " ".join(f"{float(share):.4f}" for share in truth.goal_shares)
        print(
            f"PlanarRobot-{n_goals}: log Z {found.value:.4f} +- {found.standard_error:.4f}, entropy "
            f"{truth.entropy:.3f}, goals {shares}, effective sample size {truth.effective_sample_size:.0f}, "
            f"{time.process_time() - start:.0f} s of CPU"
        )
        if n_goals == 4:
            error = (found.standard_error**2 + KNOWN_ERROR**2) ** 0.5
            print(f"  off the independent estimate by {(found.value - KNOWN) / error:+.1f} standard errors")


if __name__ == "__main__":
    main()
