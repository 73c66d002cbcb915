"""Each rule of the prose check detects its example and accepts plain English."""

import subprocess

import pytest

from scripts import prose

BROKEN = {
    "tell": "Skipped records are told at the end.",
    "opens with Of": "Of the model; 0 without one.",
    "who or what as subject": "Who wants all solutions sets a flag.",
    "verb first": "Shipped are three robots.",
    "inverted": "Nor is the other one known.",
    "of which": "Arms with seven joints, of which one is fixed.",
    "but for": "All files but for two are checked.",
    "no leading digit": "The joint may turn .3 rad.",
    "beside": "The table stands beside the picture.",
    "dialect": "Compute the table anew for each pose.",
    "dialect verb": "A single seed will do for this arm.",
    "of one's own": "Use a model of one's own here.",
    "whole": "The family of solutions is whole.",
    "what is": "Return the rows of what is left.",
    "so many": "Stop after so many iterations.",
    "those of": "Limits of a call narrow those of the robot.",
    "as of": "The task is motion, as of the import.",
    "somebody": "Wait until somebody publishes a transform.",
}
PLAIN = (
    "What does the solver return if no solution exists?",
    "Of course this holds for every arm.",
    "The bound is a whole number of radians, 0.3 at most.",
    "See section 2.3 and the range 1...5 of the paper.",
    "Return the sum of all weights that are positive.",
    "The order in which poses arrive does not matter.",
)


@pytest.mark.parametrize("rule", prose.RULES)
def test_each_rule_finds_its_example(rule):
    assert prose.COMPILED[rule].search(BROKEN[rule])


@pytest.mark.parametrize("sentence", PLAIN)
def test_plain_sentences_match_no_rule(sentence):
    assert [name for name, pattern in prose.COMPILED.items() if pattern.search(sentence)] == []


def test_list_of_parameters_is_not_one_sentence():
    names = "\n".join(f"name_{i}\n    Number of rows that the result has [1]\n" for i in range(12))
    found = [sentence for _, sentence in prose.sentences(f"Return a table.\n\nParameters\n----------\n{names}")]
    assert found == ["Return a table."] + 12 * ["Number of rows that the result has [1]"]


def test_code_equations_and_doctests_are_no_prose():
    text = "Use `one of which` or $x .5$ now.\n\n```\nof which there are\n```\n\n>>> f('is told')\nof which is told\n"
    assert [sentence for _, sentence in prose.sentences(text)] == ["Use X or X now."]


def test_sentence_is_found_in_every_kind_of_text(tmp_path):
    bad = "Steps of which none is known."
    sources = {
        "page.md": f"# Title\n\n{bad}\n",
        "log.rst": f"0.2.0\n-----\n* {bad}\n",
        "docstring.py": f'"""{bad}"""\n',
        "comment.py": f"# Steps of\n# {bad.removeprefix('Steps of ')}\n",
        "error.py": f'raise ValueError(f"{bad} {{3}}")\n',
        "logged.py": f'logger.warning("{bad}")\n',
        "help.py": f'parser.add_argument("--x", help="{bad}")\n',
        "option.py": f'x: int = option(1, "{bad}")\n',
        "header.hpp": f"int x; // {bad}\n",
        "type.srv": f"# {bad}\nfloat64 x\n",
        "settings.yaml": f"x: 1  # {bad}\n",
    }
    for name, source in sources.items():
        path = tmp_path / name
        path.write_text(source, encoding="utf-8")
        assert [sentence.matches for sentence in prose.check(path) if sentence.matches] == [["of which"]], name


def test_long_sentence_is_found_over_several_lines(tmp_path):
    path = tmp_path / "long.py"
    path.write_text("\n".join(f"# word {i} and more of it" for i in range(6)) + "\n", encoding="utf-8")
    assert [sentence.is_long for sentence in prose.check(path)] == [True]  # 36 words


def test_check_fails_for_a_folder_with_too_many_matches(tmp_path, monkeypatch, capsys):
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    (tmp_path / "page.md").write_text("Skipped records are told.\n", encoding="utf-8")
    subprocess.run(["git", "-C", str(tmp_path), "add", "page.md"], check=True)
    monkeypatch.chdir(tmp_path)
    assert prose.main([]) == 1
    assert "page.md:1: tell: Skipped records are told." in capsys.readouterr().out
    (tmp_path / "page.md").write_text("Skipped records are listed.\n", encoding="utf-8")
    assert prose.main([]) == 0
