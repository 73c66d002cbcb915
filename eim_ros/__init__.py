"""Learn all the ways an arm can reach a pose from samples, and serve them to planners."""

__version__ = "0.1.0"
