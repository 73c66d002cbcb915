"""`eim completion SHELL`: a script by which a shell completes verbs, flags, and the values that a flag may have.

    source <(eim completion bash)         # in ~/.bashrc
    source <(eim completion zsh)          # in ~/.zshrc, after compinit
    eim completion fish > ~/.config/fish/completions/eim.fish

The script is made of the parsers as they are, once; completing starts no program.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from eim_ros.cli.main import EXTRAS, VERBS, parser_of
from eim_ros.core.files import to_json
from eim_ros.kinematics import SHIPPED_ROBOTS

SHELLS = ("bash", "zsh", "fish")


@dataclass(frozen=True)
class Place:
    """What may follow some words.

    Attributes
    ----------
    words : tuple of str
        Verbs, such as ("motion", "sample").
    verbs : dict of str to str
        That may follow, with their help.
    flags : dict of str to str
        With their help.
    values : dict of str to tuple of str
        Of flags that have few.
    """

    words: tuple[str, ...]
    verbs: dict[str, str]
    flags: dict[str, str]
    values: dict[str, tuple[str, ...]]


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = subparsers.add_parser(
        "completion",
        help="a script that completes verbs and flags in a shell",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    parser.add_argument("--json", action="store_true", help="print one JSON object: what may follow which words")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit code."""
    found = places()
    if args.json:
        print(to_json({" ".join(place.words): [*place.verbs, *place.flags] for place in found}))
    elif args.shell == "fish":
        print("\n".join(_fish(found)))
    else:
        print("\n".join([*_tables(found), BASH if args.shell == "bash" else ZSH]))
    return 0


def places() -> list[Place]:
    """Of the whole command line; a verb that needs a package which is not installed has no flags."""
    usable = []
    for verb in VERBS:
        try:
            parser_of([verb])
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in EXTRAS:
                raise
        else:
            usable.append(verb)
    return list(_places(parser_of(usable), ()))


def _places(parser: argparse.ArgumentParser, words: tuple[str, ...]) -> Iterator[Place]:
    flags: dict[str, str] = {}
    values: dict[str, tuple[str, ...]] = {}
    children: dict[str, argparse.ArgumentParser] = {}
    summaries: dict[str, str] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            children = dict(action.choices)
            summaries = {each.dest: each.help or "" for each in action._choices_actions}
        for flag in action.option_strings:
            if flag.startswith("--"):
                flags[flag] = (action.help or "").replace("%(default)s", str(action.default))
            if action.choices is not None:
                values[flag] = tuple(map(str, action.choices))
            if flag == "--robot":
                values[flag] = SHIPPED_ROBOTS
    yield Place(words, summaries, flags, values)
    for name, child in children.items():
        yield from _places(child, (*words, name))


BASH = """_eim() {
  local place=eim word="${COMP_WORDS[COMP_CWORD]}" REPLY i
  for ((i = 1; i < COMP_CWORD; i++)); do
    _eim_verbs "$place"
    [[ " $REPLY " == *" ${COMP_WORDS[i]} "* ]] && place="$place ${COMP_WORDS[i]}"
  done
  _eim_values "$place ${COMP_WORDS[COMP_CWORD-1]}"
  [[ -z $REPLY && $word == -* ]] && _eim_flags "$place"
  [[ -z $REPLY ]] && _eim_verbs "$place"
  if [[ -n $REPLY ]]; then COMPREPLY=($(compgen -W "$REPLY" -- "$word")); else COMPREPLY=($(compgen -f -- "$word")); fi
}
complete -o filenames -F _eim eim"""

ZSH = """_eim() {
  local place=eim REPLY i
  for ((i = 2; i < CURRENT; i++)); do
    _eim_verbs "$place"
    [[ " $REPLY " == *" ${words[i]} "* ]] && place="$place ${words[i]}"
  done
  _eim_values "$place ${words[CURRENT-1]}"
  [[ -z $REPLY && ${words[CURRENT]} == -* ]] && _eim_flags "$place"
  [[ -z $REPLY ]] && _eim_verbs "$place"
  if [[ -n $REPLY ]]; then compadd -- ${=REPLY}; else _files; fi
}
compdef _eim eim"""


def _tables(found: list[Place]) -> Iterator[str]:
    """Functions of bash and zsh alike, which set REPLY."""
    tables: dict[str, dict[tuple[str, ...], Collection[str]]] = {
        "verbs": {place.words: place.verbs for place in found},
        "flags": {place.words: place.flags for place in found},
        "values": {(*place.words, flag): some for place in found for flag, some in place.values.items()},
    }
    for name, table in tables.items():
        yield f"_eim_{name}() {{"
        yield '  case "$1" in'
        for key, words in table.items():
            if words:
                yield f"    {shlex.quote(' '.join(('eim', *key)))}) REPLY={shlex.quote(' '.join(words))} ;;"
        yield "    *) REPLY= ;;"
        yield "  esac"
        yield "}"


def _fish(found: list[Place]) -> list[str]:
    lines: list[str] = []
    for place in found:
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in place.words) or "true"
        none_yet = f"; and not __fish_seen_subcommand_from {' '.join(place.verbs)}" if place.verbs else ""
        condition = f"-n {shlex.quote(seen + none_yet)}"
        for verb, summary in place.verbs.items():
            lines.append(f"complete -c eim {condition} -f -a {verb} -d {shlex.quote(summary)}")
        for flag, summary in place.flags.items():
            some = place.values.get(flag)
            chosen = f" -x -a {shlex.quote(' '.join(some))}" if some else ""
            described = shlex.quote(" ".join(summary.split()))
            lines.append(f"complete -c eim {condition} -l {flag.removeprefix('--')}{chosen} -d {described}")
    return lines
