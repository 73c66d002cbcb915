"""Files that hold the SHA-256 of themselves: no changed bit goes unnoticed, wherever it is.

The digest is of the whole file with zeros in the digest's own place, which is behind a mark: what precedes it in the
file. A file of another layout needs another mark, and a place for sixty-four letters that its readers pass over.
"""

from __future__ import annotations

import hashlib
import re

__all__ = ["BLANK", "checksum_problem", "sealed"]

BLANK = "0" * 64  # what a writer leaves where the digest belongs


def sealed(content: bytes, mark: bytes) -> bytes:
    """A whole file, with its digest in place of the first `BLANK` behind a mark."""
    place = content.index(mark + BLANK.encode()) + len(mark)
    return b"".join((content[:place], _digest(content, place), content[place + len(BLANK) :]))


def checksum_problem(content: bytes, mark: bytes) -> str:
    """Why a whole file cannot be trusted, as the end of a sentence that begins with its name; empty where it can."""
    pattern = re.compile(re.escape(mark) + rb"([0-9a-f]{64})")
    found = [(match.group(1), match.start(1)) for match in pattern.finditer(content)]  # a text may quote another's
    if any(digest == _digest(content, place) for digest, place in found):
        return ""
    if found:
        return "is damaged: its content does not match its checksum; use another copy, or make it again"
    return "has no checksum: it is damaged, or was written before files had one; make it again with this version"


def _digest(content: bytes, place: int) -> bytes:
    """Of content with zeros at a place."""
    view, digest = memoryview(content), hashlib.sha256()
    for part in (view[:place], BLANK.encode(), view[place + len(BLANK) :]):
        digest.update(part)
    return digest.hexdigest().encode()
