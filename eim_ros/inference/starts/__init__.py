"""Models that learners start from: by clustering, by pieces of the contexts, or made of another fit."""

__all__: list[str] = []
