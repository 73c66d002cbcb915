"""Number of threads of the linear algebra: one by default, for the same numbers on every machine.

The matrices are small; on a machine that does something else too, several threads wait for each other most of the time.
"""

from __future__ import annotations

import argparse

import torch

from eim_ros.errors import ConfigurationError

__all__ = ["add_threads_flag", "use_threads"]


def add_threads_flag(parser: argparse.ArgumentParser) -> None:
    """Add --threads."""
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of torch (default %(default)s)")


def use_threads(args: argparse.Namespace) -> None:
    """Apply --threads to this process."""
    if args.threads < 1:
        raise ConfigurationError(f"--threads must be at least 1, got {args.threads}", args.threads)
    torch.set_num_threads(args.threads)
