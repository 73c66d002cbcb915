"""The flag --threads: how many threads the linear algebra has, see `eim_ros.numerics.threads`."""

from __future__ import annotations

import argparse

from eim_ros.errors import ConfigurationError

__all__ = ["add_threads_flag", "use_threads"]


def add_threads_flag(parser: argparse.ArgumentParser) -> None:
    """Add --threads."""
    meaning = "threads of torch (default: what OMP_NUM_THREADS says, else 1)"
    parser.add_argument("--threads", type=int, metavar="N", help=meaning)


def use_threads(args: argparse.Namespace) -> None:
    """Apply --threads to this process."""
    if args.threads is not None and args.threads < 1:
        raise ConfigurationError(f"--threads must be at least 1, got {args.threads}", args.threads)
    from eim_ros.numerics.threads import default_threads, use_torch_threads  # here: it needs torch

    use_torch_threads(args.threads or default_threads())
