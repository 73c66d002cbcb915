"""Pieces of launch files: each describes its nodes by `LaunchedNode`, and `description` makes of them what launch runs.

`launch` is needed by `description` alone; it is there where `ros2 launch` is.
"""
