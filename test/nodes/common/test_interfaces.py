"""Our own service type: its constants, and what is said where it was not built."""

from __future__ import annotations

import importlib
import sys

import pytest

from eim_ros.ik import ErrorCode
from eim_ros.msg import IKSolutions
from eim_ros.solver import NO_EXPERT


def test_constants_are_the_error_codes() -> None:
    interfaces = importlib.import_module("eim_ros.nodes.common.interfaces")
    assert {int(code): code.name for code in ErrorCode} == interfaces.ERROR_NAMES
    assert IKSolutions.NO_EXPERT == NO_EXPERT


def test_missing_build_is_explained_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "eim_ros.srv", None)
    monkeypatch.delitem(sys.modules, "eim_ros.nodes.common.interfaces", raising=False)
    with pytest.raises(ImportError, match="make setup"):
        importlib.import_module("eim_ros.nodes.common.interfaces")
