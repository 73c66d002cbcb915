"""The only map from names on the command line to classes."""

from __future__ import annotations

from eim_ros.inference import EIMConfig, EMConfig

__all__ = ["ALGORITHMS"]

ALGORITHMS: dict[str, type[EMConfig] | type[EIMConfig]] = {"eim": EIMConfig, "em": EMConfig}
