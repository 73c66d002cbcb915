"""The command line of the experiments."""

from __future__ import annotations

import pytest
from cli.command import Command

from experiments.__main__ import main


@pytest.fixture
def experiments(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys, main)
