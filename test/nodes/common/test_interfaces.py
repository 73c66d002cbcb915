"""Tests of the service type: its constants, and the error message if it was not built."""

from __future__ import annotations

import importlib
import sys

import pytest

from eim_ros.ik import ErrorCode
from eim_ros.msg import ErrorCodes, IKSolutions
from eim_ros.solver import NO_EXPERT


def test_constants_are_the_error_codes() -> None:
    assert {code.name: getattr(ErrorCodes, code.name) for code in ErrorCode} == dict(ErrorCode.__members__)
    assert IKSolutions.NO_EXPERT == NO_EXPERT


def test_missing_build_is_explained_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "eim_ros.srv", None)
    monkeypatch.delitem(sys.modules, "eim_ros.nodes.common.interfaces", raising=False)
    with pytest.raises(ImportError, match="make setup"):
        importlib.import_module("eim_ros.nodes.common.interfaces")
