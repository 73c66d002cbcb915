#!/usr/bin/env python3
"""Fuzz one parser with atheris, guided by coverage. The first inputs are files from our own writers.

    python fuzz/fuzz_parsers.py urdf --seconds 30

Inputs that reach new lines are kept only during the run. The run ends at a warning, at a crash, at an exception that
is not an `EimError`, or at an input that takes more than 20 s. The input that ended the run is saved in build/fuzz/.
Its name begins with the name of the parser. `--input FILE` reads a saved input again. `--list` lists the parsers.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import warnings
from pathlib import Path

FOUND = Path(__file__).resolve().parents[1] / "build" / "fuzz"
INSTRUMENTED = ["eim_ros", "rosbags", "yaml", "xml.etree"]  # packages whose coverage is measured
LARGEST = 1 << 16  # maximum size of an input [byte]
SLOWEST = 20  # time limit for one input [s]
MOST_MEMORY = 3000  # memory limit [MB]


def fuzz(name: str, seconds: int, seed: int) -> None:
    import atheris

    with atheris.instrument_imports(include=INSTRUMENTED):
        from parser_targets import TARGETS, parsed

    warnings.simplefilter("error")
    target = TARGETS[name]
    FOUND.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        corpus, scratch = Path(folder, "corpus"), Path(folder, "scratch")
        for each in (corpus, scratch):
            each.mkdir()
        for number, content in enumerate(target.seeds(scratch)):
            (corpus / f"seed{number}").write_bytes(content)
            parsed(target, content, scratch)  # run deferred imports before coverage is measured
        options = [
            f"-max_total_time={seconds}",
            f"-max_len={LARGEST}",
            f"-seed={seed}",
            f"-timeout={SLOWEST}",
            f"-rss_limit_mb={MOST_MEMORY}",
            f"-artifact_prefix={FOUND}/{name}-",
            "-print_final_stats=1",
            "-verbosity=0",
        ]
        atheris.Setup([sys.argv[0], *options, str(corpus)], lambda content: parsed(target, content, scratch) and None)
        atheris.Fuzz()


def read(name: str, path: Path) -> None:
    from parser_targets import TARGETS, parsed

    warnings.simplefilter("error")
    with tempfile.TemporaryDirectory() as folder:
        refusals = parsed(TARGETS[name], path.read_bytes(), Path(folder))
    print(*(f"refused: {error}" for error in refusals) if refusals else ["read"], sep="\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parser", nargs="?")
    parser.add_argument("--seconds", type=int, default=int(os.environ.get("FUZZ_SECONDS", "30")))
    parser.add_argument("--seed", type=int, default=random.randrange(1, 2**31))
    parser.add_argument("--input", type=Path, help="read one file instead")
    parser.add_argument("--list", action="store_true", help="names of the parsers")
    asked = parser.parse_args()
    if asked.list:
        from parser_targets import TARGETS

        print(*TARGETS, sep="\n")
    elif asked.parser is None:
        parser.error("name a parser")
    elif asked.input is not None:
        read(asked.parser, asked.input)
    else:
        print(f"{asked.parser}: {asked.seconds} s from seed {asked.seed}", flush=True)
        fuzz(asked.parser, asked.seconds, asked.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
