"""Models that learners start from: by clustering, in pieces, or made of another fit."""

__all__: list[str] = []
