"""Packages that import slow modules on first use list all public names and find them in the right modules."""

from __future__ import annotations

import importlib

import pytest

PACKAGES = ["eim_ros.learning.models", "eim_ros.ik"]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_found_and_listed(package: str) -> None:
    module = importlib.import_module(package)
    assert set(module.__all__) <= set(dir(module))
    for name in module.__all__:
        value = getattr(module, name)
        assert getattr(value, "__name__", name) == name
        assert getattr(value, "__module__", package).startswith(package)


@pytest.mark.parametrize("package", PACKAGES)
def test_unknown_name_is_an_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        importlib.import_module(package).nothing
