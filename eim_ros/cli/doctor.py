"""`eim doctor`: looks whether all is there that the package needs on this machine, and names the cure of each fault.

Exit code 0 where nothing is broken, 1 where something is. What is missing and only some need is no fault.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable

from eim_ros.cli.health.contents import models, robots, solving
from eim_ros.cli.health.finding import FAULT, Finding
from eim_ros.cli.health.installation import compiled_modules, compiler, packages, python
from eim_ros.cli.health.ros import dds, interfaces

__all__ = ["CHECKS", "add_parser", "run"]

CHECKS: tuple[Callable[[], list[Finding]], ...] = (
    python,
    packages,
    compiler,
    compiled_modules,
    robots,
    models,
    solving,
    interfaces,
    dds,
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = subparsers.add_parser("doctor", help="what is broken or missing here, and its cure", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit code."""
    findings: list[Finding] = []
    for check in CHECKS:
        for finding in check():
            findings.append(finding)
            if not args.json:
                print(f"{finding.state:8}{finding.area:12}{finding.told}", flush=True)
                if finding.cure:
                    print(f"{'':20}-> {finding.cure}", flush=True)
    n_faults = sum(finding.state == FAULT for finding in findings)
    if args.json:
        print(json.dumps({"faults": n_faults, "findings": [dataclasses.asdict(finding) for finding in findings]}))
    else:
        print("nothing is broken" if not n_faults else f"{n_faults} fault{'s' if n_faults > 1 else ''}")
    return 1 if n_faults else 0
