"""What all learners take: settings by keyword or as one object, and a seed or a generator."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

import torch

from eim_ros.errors import ConfigurationError
from eim_ros.settings import Settings

__all__ = ["checked_device", "checked_seed", "configuration", "generator_from"]

ConfigT = TypeVar("ConfigT", bound=Settings)

SCIKIT_LEARN_NAMES = {
    "max_iter": "n_iterations",
    "n_init": "n_starts",
    "random_state": "seed",
    "reg_covar": "covariance_floor",
    "tol": "tolerance",
}


def configuration(kind: type[ConfigT], config: ConfigT | None, settings: Mapping[str, Any]) -> ConfigT:
    """Settings of a learner.

    Parameters
    ----------
    kind : type
        Of the settings.
    config : Settings, optional
        The defaults if missing.
    settings : mapping
        Values by name, which replace those of `config`.

    Raises
    ------
    ConfigurationError
        Names that are no settings, with the likely ones; a `config` of another kind; values out of bounds.
    """
    if config is not None and not isinstance(config, kind):
        raise ConfigurationError(
            f"the settings must be a {kind.__name__} or keywords, as in n_components=10, got {config!r}", config
        )
    known = {field.name for field in dataclasses.fields(kind)}
    for name in settings:
        if name not in known and SCIKIT_LEARN_NAMES.get(name) in known | {"seed"}:
            raise ConfigurationError(f"unknown setting {name}; here it is {SCIKIT_LEARN_NAMES[name]}", name)
    if not settings and config is not None:
        return config
    return kind.from_mapping({**({} if config is None else config.to_mapping()), **settings})


def checked_seed(seed: Any) -> int:
    """The seed, if it is a whole number from 0 on; `ConfigurationError` otherwise."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ConfigurationError(f"seed must be a whole number from 0 on, got {seed!r}", seed)
    return seed


def generator_from(generator: torch.Generator | None, seed: int) -> torch.Generator:
    """The generator, or one of the seed; `ConfigurationError` if it is neither a generator nor None."""
    if generator is None:
        return torch.Generator().manual_seed(seed)
    if not isinstance(generator, torch.Generator):
        raise ConfigurationError(
            f"generator must be a torch.Generator, got {generator!r}; a seed is given to the learner, as in EM(seed=3)",
            generator,
        )
    return generator


def checked_device(name: str) -> str:
    """The name of a device that this PyTorch has, "cpu" or "cuda" with or without a number."""
    try:
        device = torch.device(name) if isinstance(name, str) else None
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise ConfigurationError(f"unknown device {name!r}; use cpu or cuda", name)
    if device.type == "cuda":
        n_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if not n_devices:
            raise ConfigurationError("this PyTorch sees no CUDA device; use --device cpu", name)
        if (device.index or 0) >= n_devices:
            raise ConfigurationError(f"there is no {name}; this PyTorch sees {n_devices} CUDA devices", name)
    return name
