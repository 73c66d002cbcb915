"""The checks of `eim doctor` find each fault that a test introduces, and name its remedy."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from pathlib import Path

import pytest

from eim_ros.cli import doctor
from eim_ros.cli.doctor import FAULT, GOOD, MISSING, Finding, findings_of, robots, solving
from eim_ros.core import native
from eim_ros.kinematics import catalogue


def only(findings: list[Finding]) -> Finding:
    (found,) = findings
    return found


def test_a_package_that_is_missing_or_old_is_a_fault_and_one_of_an_extra_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = ["no-such-package>=2", "numpy>=99.1", "scipy", 'no-such-either>=1; extra == "viz"']
    monkeypatch.setattr(doctor, "requires", lambda name: [*wanted, 'no-such-either>=1; extra == "all"'])
    missing, old, extra = findings_of(doctor.packages)
    assert (missing.state, old.state, extra.state) == (FAULT, FAULT, MISSING)
    assert "no-such-package is not installed" in missing.told
    assert f"numpy {importlib.metadata.version('numpy')} is older than 99.1" in old.told
    assert old.cure == "pip install --upgrade 'numpy>=99.1'"
    assert (extra.area, extra.cure) == ("extra viz", "pip install '.[viz]'")


def test_a_package_that_cannot_be_imported_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "requires", lambda name: ["scipy"])
    monkeypatch.setitem(sys.modules, "scipy", None)
    assert "scipy" in only(findings_of(doctor.packages)).told


def test_a_package_that_is_not_installed_at_all_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> list[str]:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "requires", absent)
    assert "pip install" in only(findings_of(doctor.packages)).cure


def test_a_compiled_module_that_is_missing_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "COMPILED", ("eim_ros.solver._no_such",))
    found = only(findings_of(doctor.compiled))
    assert found.state == FAULT
    assert "make setup" in found.cure


def test_a_slower_module_than_need_be_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    best = native.load_native("eim_ros.solver._solver").__name__.rpartition("_")[2]
    if best == "baseline":
        pytest.skip("this processor has no better instruction set than the plainest")
    if importlib.util.find_spec("eim_ros.solver._solver_baseline") is None:
        pytest.skip("the module for any processor is not installed")
    monkeypatch.setenv(native.VARIABLE, "baseline")
    slow = findings_of(doctor.compiled)
    assert {found.state for found in slow} == {MISSING}
    assert all("unset EIM_ROS_INSTRUCTION_SET" in found.cure for found in slow)


def test_robots_and_models_that_are_not_there_are_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [found.state for found in findings_of(robots)] == [GOOD, GOOD]
    assert only(findings_of(solving)).state == GOOD
    monkeypatch.setattr(catalogue, "__file__", str(tmp_path / "a/b/c/d/e/f/shipped.py"))
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path))
    assert {found.state for found in findings_of(robots)} == {FAULT}
    assert only(findings_of(solving)).state == FAULT


@pytest.mark.parametrize(
    ("variable", "value", "cure"),
    [("ROS_DOMAIN_ID", "banana", "0 to 101"), ("ROS_AUTOMATIC_DISCOVERY_RANGE", "OFF", "LOCALHOST")],
)
def test_settings_by_which_nodes_cannot_meet_are_faults(
    variable: str, value: str, cure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    found = only(findings_of(doctor.dds))
    assert found.state == FAULT
    assert variable in found.told
    assert cure in found.cure


@pytest.mark.parametrize("variable", ["FASTDDS_DEFAULT_PROFILES_FILE", "FASTRTPS_DEFAULT_PROFILES_FILE"])
def test_profiles_of_the_user_without_what_ours_are_there_for_are_told(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROS_DOMAIN_ID", "banana")  # with this fault, no nodes are started
    profiles = tmp_path / "mine.xml"
    monkeypatch.setenv(variable, str(profiles))
    assert [found.state for found in findings_of(doctor.dds)] == [FAULT, MISSING]  # the file does not exist
    profiles.write_text("<profiles/>", encoding="utf-8")
    told = findings_of(doctor.dds)[1]
    assert (variable in told.told, "config/fastdds.xml" in told.cure) == (True, True)
    profiles.write_text(catalogue.share_path("config/fastdds.xml").read_text(encoding="utf-8"), encoding="utf-8")
    assert [found.state for found in findings_of(doctor.dds)] == [FAULT]


def test_a_middleware_that_is_not_there_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMW_IMPLEMENTATION", "rmw_of_nobody")
    found = only(findings_of(doctor.ros))
    assert found.state == FAULT
    assert "unset RMW_IMPLEMENTATION, or install rmw_of_nobody" in found.cure


def test_without_ros_nothing_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert findings_of(doctor.dds) == []
    found = only(findings_of(doctor.ros))
    assert found.state == MISSING
    assert "make setup" in found.cure
