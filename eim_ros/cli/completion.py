"""`eim completion`: print a script that completes verbs, flags and choices in a shell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from eim_ros.cli.flags import choices_of, flag, flags_of
from eim_ros.cli.main import VERBS, verb_type

BASH = """_eim() {{
  local words
  if ((COMP_CWORD == 1)); then
    words="{verbs}"
  else
    case "${{COMP_WORDS[1]}} ${{COMP_WORDS[COMP_CWORD-1]}}" in
{cases}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _eim eim"""
ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"


def bash_script() -> str:
    """Return the script that completes verbs, flags and choices in bash."""
    cases = []
    for verb in VERBS:
        words, choices = words_of(verb)
        cases += [f'{verb} {name}") words="{" ".join(some)}' for name, some in choices.items()]
        cases.append(f'{verb} "*) words="{" ".join(words)}')
    return BASH.format(verbs=" ".join(VERBS), cases="\n".join(f'      "{case}" ;;' for case in cases))


def fish_script() -> str:
    """Return the script that completes verbs, flags and choices in fish."""
    lines = [f'complete -c eim -n __fish_use_subcommand -a {verb} -d "{text}"' for verb, (_, text) in VERBS.items()]
    for verb in VERBS:
        words, choices = words_of(verb)
        start = f"complete -c eim -n '__fish_seen_subcommand_from {verb}'"
        for word in words:
            given = f"-l {word[2:]}" if word.startswith("-") else f"-a {word}"
            lines.append(f"{start} {given}" + (f" -x -a '{' '.join(choices[word])}'" if word in choices else ""))
    return "\n".join(lines)


def words_of(verb: str) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """Return the words that may follow a verb, and the words that may follow some of its flags."""
    kinds = verb_type(verb)
    kinds = kinds if isinstance(kinds, dict) else {"": kinds}
    flags = [name for kind in kinds.values() for name in flags_of(kind)]
    choices = {name: some for kind in kinds.values() for name, some in choices_of(kind).items()}
    places = [word for name, some in choices.items() if not name.startswith("-") for word in some]
    words = dict.fromkeys([*filter(None, kinds), *places, *flags, "--help"])
    return list(words), {name: some for name, some in choices.items() if name.startswith("-")}


@dataclass(frozen=True, kw_only=True)
class Completion:
    """Print a script that completes verbs, flags and choices in a shell. Source it in the startup file of the shell."""

    shell: Literal["bash", "zsh", "fish"] = flag(text="Shell: bash, zsh or fish.", positional=True)

    def run(self) -> int:
        print(fish_script() if self.shell == "fish" else f"{ZSH * (self.shell == 'zsh')}{bash_script()}")
        return 0
