"""Seeds of compiled random numbers: a request of a fraction of a millisecond cannot wait for a generator to be made."""

from __future__ import annotations

import hashlib
import os

__all__ = ["seed_fraction"]


def seed_fraction(seed: int | None) -> float:
    """The first 53 bits of the hash of a seed >= 0, or fresh ones, as a number in [0, 1)."""
    if seed is None:
        octets = os.urandom(8)
    else:
        octets = hashlib.blake2b(seed.to_bytes(seed.bit_length() // 8 + 1, "little"), digest_size=8).digest()
    return (int.from_bytes(octets, "little") >> 11) * 2.0**-53
