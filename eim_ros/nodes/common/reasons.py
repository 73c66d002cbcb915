"""What a node says of an error, in one line."""

from __future__ import annotations

from eim_ros.errors import EimError

__all__ = ["reason_of"]


def reason_of(error: Exception) -> str:
    """Message of an error that names its own cause and cure, else with its type, as one that nobody has foreseen."""
    is_known = isinstance(error, EimError) and str(error)
    return " ".join((str(error) if is_known else f"internal error: {type(error).__name__}: {error}").split())
