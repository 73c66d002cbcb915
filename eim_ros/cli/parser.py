"""The parser of all verbs: bad usage in one line that says what was meant, and help of two lengths.

`--help` explains the basic settings and names the others; `--help-all` explains all.
"""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from eim_ros.cli.exit_codes import ExitCode
from eim_ros.errors import did_you_mean

__all__ = ["Parser"]

NEGATIVE_NUMBER = re.compile(r"-(\d+\.?\d*|\.\d+|inf)([eE][+-]?\d+)?$")  # argparse takes -1e-05 for an option
LIKE_A_FLAG = re.compile(r"--?[A-Za-z][\w-]+$")


class _HelpAll(argparse.Action):
    """Prints the help with every setting."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        assert isinstance(parser, Parser)
        parser._shows_all = True
        parser.print_help()
        parser.exit()


class Parser(argparse.ArgumentParser):
    """Reports bad usage in one line with what was meant, and takes negative numbers in any notation for numbers."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._negative_number_matcher = NEGATIVE_NUMBER
        self._expert_group: argparse._ArgumentGroup | None = None
        self._shows_all = False

    def add_expert_group(self, title: str, description: str) -> argparse._ArgumentGroup:
        """A group whose flags `--help` names and `--help-all` explains."""
        if "--help-all" not in self._option_string_actions:
            self.add_argument("--help-all", action=_HelpAll, nargs=0, help="explain the expert settings, too, and exit")
        self._expert_group = self.add_argument_group(title, description)
        return self._expert_group

    def error(self, message: str) -> NoReturn:
        self.exit(ExitCode.USAGE, f"{self.prog}: {' '.join(message.split())} (see {self.prog} --help)\n")

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As argparse, but what a parser does not know is told by that parser, before what it misses."""
        words = [] if args is None else list(args)
        if not self._has_verbs:
            self._refuse_unknown(word for word in words[: words.index("--") if "--" in words else None])
        known, rest = super().parse_known_args(words, namespace)
        if rest and not self._has_verbs:
            self.error(f"there is no place for {' '.join(rest)}{self._meant(rest)}")
        return known, rest

    def format_usage(self) -> str:
        formatter = self._get_formatter()
        self._add_usage(formatter)
        return formatter.format_help()

    def format_help(self) -> str:
        if self._expert_group is None or self._shows_all:
            return super().format_help()
        formatter = self._get_formatter()
        self._add_usage(formatter)
        formatter.add_text(self.description)
        for group in self._action_groups:
            formatter.start_section(group.title)
            formatter.add_text(group.description)
            if group is self._expert_group:
                names = ", ".join(action.option_strings[0] for action in group._group_actions)
                formatter._add_item(_unbroken, [f"{names}: see --help-all", formatter._width])
            else:
                formatter.add_arguments(group._group_actions)
            formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    @property
    def _has_verbs(self) -> bool:
        return self._subparsers is not None

    def _add_usage(self, formatter: argparse.HelpFormatter) -> None:
        """Without expert settings unless all are shown."""
        hidden = [] if self._expert_group is None or self._shows_all else self._expert_group._group_actions
        shown = [action for action in self._actions if action not in hidden]
        formatter.add_usage(self.usage, shown, self._mutually_exclusive_groups)

    def _refuse_unknown(self, words: Iterable[str]) -> None:
        """Flags that there are not; argparse also takes a beginning that only one flag has."""
        known = list(self._option_string_actions)
        for word in words:
            name = word.partition("=")[0]
            is_flag = (
                LIKE_A_FLAG.match(name) and name != "-inf" and name[:2] not in known
            )  # else a short flag with its value, as -n50
            if is_flag and not any(flag.startswith(name) for flag in known):
                self.error(f"there is no flag {name}{self._meant([name])}")

    def _meant(self, words: Sequence[str]) -> str:
        first = words[0].partition("=")[0]
        is_flag = first.startswith("-") and not NEGATIVE_NUMBER.match(first)
        return did_you_mean(f"--{first.lstrip('-')}", self._option_string_actions) if is_flag else ""

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError:
            if action.type not in (int, float):
                raise
            kind = "a whole number" if action.type is int else "a number"
            listed = "; several are separated by spaces" if set(arg_string) & set(",;[]()") else ""
            raise argparse.ArgumentError(action, f"expected {kind}, got {arg_string!r}{listed}") from None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            meant = did_you_mean(str(value), map(str, action.choices or ()))
            raise argparse.ArgumentError(action, f"{error.message}{meant}") from None


def _unbroken(text: str, width: int) -> str:
    """A paragraph whose flags stay whole."""
    indent = "  "
    return textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False) + "\n"
