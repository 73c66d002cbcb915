"""`eim doctor` reports no fault on this machine. For a fault, it prints a remedy and exits with code 1."""

from __future__ import annotations

import pytest
from cli.command import Command, eim_process

from eim_ros.cli import doctor
from eim_ros.cli.doctor import FAULT, Finding
from eim_ros.core import native
from eim_ros.nodes.common.domain import TEST_DOMAINS, own_domain


def test_a_machine_that_runs_the_tests_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    with own_domain(TEST_DOMAINS) as domain:
        monkeypatch.setenv("ROS_DOMAIN_ID", str(domain))
        monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        monkeypatch.delenv(native.VARIABLE, raising=False)  # a request for a slower module is a finding
        outcome = eim_process("doctor", "--json")
    report = outcome.json
    states = {finding["area"]: finding["state"] for finding in report["findings"]}
    assert (outcome.code, report["faults"], outcome.err) == (0, 0, ""), report
    assert {"packages", "compiled", "robots", "models", "solving"} <= {
        area for area, state in states.items() if state == "ok"
    }
    assert states["dds"] == "ok"


def test_faults_are_counted_and_their_cures_told(eim: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Finding("python", FAULT, "too old", "use a newer one")
    monkeypatch.setattr(doctor, "CHECKS", (lambda: [broken], lambda: [Finding("robots", "ok", "all")]))
    outcome = eim("doctor")
    assert outcome.code == 1
    assert outcome.out.splitlines() == [
        "fault   python      too old",
        "                    -> use a newer one",
        "ok      robots      all",
        "1 fault",
    ]
