"""Types of whole numbers on the command line, whose refusals say what was expected."""

from __future__ import annotations

from argparse import ArgumentTypeError

__all__ = ["count", "count_or_none", "port", "random_seed", "random_seed_or_fresh"]

LARGEST_COUNT = 2**32 - 1  # what the service's messages can carry
LARGEST_SEED = 2**63 - 1
LARGEST_PORT = 2**16 - 1


def count(text: str) -> int:
    """How many: 1 or more."""
    return _within(text, 1, LARGEST_COUNT)


def port(text: str) -> int:
    """Of a network: 0, for any that is free, to 65535."""
    return _within(text, 0, LARGEST_PORT)


def count_or_none(text: str) -> int:
    """How many: 0 or more."""
    return _within(text, 0, LARGEST_COUNT)


def random_seed(text: str) -> int:
    """Random seed: 0 or more."""
    return _within(text, 0, LARGEST_SEED)


def random_seed_or_fresh(text: str) -> int | None:
    """Random seed; None, for a fresh one, if negative."""
    value = _within(text, -LARGEST_SEED, LARGEST_SEED)
    return value if value >= 0 else None


def _within(text: str, least: int, most: int) -> int:
    try:
        value = int(text)
    except ValueError as error:
        raise ArgumentTypeError(f"expected a whole number, got {text!r}") from error
    if not least <= value <= most:
        raise ArgumentTypeError(f"must be between {least} and {most}, got {value}")
    return value
