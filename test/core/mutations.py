"""Damaged copies of a file, as disks, transfers and editors make them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

__all__ = ["mutated"]

WAYS = ("bit", "bits", "zeros", "noise", "cut", "appended", "moved", "missing")


def mutated(content: bytes, n: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Return n changed copies of the content, each with a description of the change."""
    rng = np.random.default_rng(seed)
    done = 0
    while done < n:
        way = WAYS[done % len(WAYS)]
        changed = _changed(content, way, rng)
        if changed != content:  # zeros may have been there before
            done += 1
            yield way, changed


def _changed(content: bytes, way: str, rng: np.random.Generator) -> bytes:
    begin, size = int(rng.integers(len(content))), int(rng.integers(1, 600))
    end = min(begin + size, len(content))
    values = np.frombuffer(content, dtype=np.uint8).copy()
    if way in ("bit", "bits"):
        for place in rng.integers(len(content), size=1 if way == "bit" else 5):
            values[place] ^= 1 << int(rng.integers(8))
    elif way == "zeros":
        values[begin:end] = 0
    elif way == "noise":
        values[begin:end] = rng.integers(256, size=end - begin)
    elif way == "cut":
        return content[:begin]
    elif way == "appended":
        return content + rng.bytes(size)
    elif way == "moved":
        return content[:begin] + content[end:] + content[begin:end]
    elif way == "missing":
        return content[:begin] + content[end:]
    return values.tobytes()
