"""Learning of inverse kinematics models: data, inputs of the density ratio, targets, training, evaluation, metrics.

The only part of `eim_ros.ik` that needs torch. `eim_ros.ik` has its public names too, and imports them on first use.
"""

__all__: list[str] = []
