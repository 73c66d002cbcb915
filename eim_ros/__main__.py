"""`python -m eim_ros`: the command line, also where the folder of its script is not on the path."""

from __future__ import annotations

import sys

from eim_ros.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
