"""Each figure of README.md, CONTRIBUTING.md and docs is read from a committed result, or named as something else.

After you repeat a benchmark, run this file: each failure prints a passage and its figures according to today's results.
A new number in a document needs an entry in FIGURES of document_figures.py, which says where the number comes from. A
number that was not measured, such as a definition, needs one in NOT_MEASURED. A figure that no file contains does not
belong in a document.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import document_figures
import pytest
from document_figures import FIGURES, NOT_MEASURED, NUMBER, WORD, Figure, number, pattern, values

ROOT = Path(__file__).resolve().parents[1]
ELSEWHERE = {
    "docs/report/index.md",  # generated; test/studies/test_report.py compares it with the tables
    "docs/reference/notation.md",  # numbers of equations and chapters
}
PAGES = sorted(
    {
        "README.md",
        "CONTRIBUTING.md",
        "config/models/README.md",
        "examples/README.md",
        *(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md")),
    }
    - ELSEWHERE
)

UNIT = r"(?:%|[mµμun]?s|min|minutes?|seconds?|hours?|[cmk]?m|rad|nat|degrees?|k?Hz|[kMG]i?B|k|times)(?![\w/])"
FIGURE = re.compile(  # with a unit, a point, an exponent or several digits; words only in ratios and shares
    rf"(?<![\w.^_-])(?:{NUMBER}(?=[ -]?{UNIT})|(?:\d+\.\d+(?:e-?\d+)?|\d+e-?\d+|\d[\d,]*\d)(?![\w-]))"
    rf"|{WORD}(?= times| of (?:{WORD}|\d))|\b(?:half|third|quarter|fifth|tenth)(?= of )"
)
CITED = re.compile(r"(?:[A-Z][\w.]+,?|al\.|\() ?(?:19|20)\d\d\b")  # Burdick 1989, Becker et al. (2020)


def prose_of(page: str) -> str:
    """Return a page as one line, without blocks of code, comments, and the targets of links."""
    text = (ROOT / page).read_text(encoding="utf-8")
    text = re.sub(
        r"^(```|~~~).*?^\1|<!--.*?-->|\]\(.*?\)|\*\*", lambda m: "]" * m[0].startswith("]"), text, flags=re.S | re.M
    )
    return re.sub(r"\s+", " ", text)


def places(figure: Figure, text: str) -> re.Match[str]:
    """Find the passage of a figure in the text of its page."""
    found = list(re.finditer(pattern(figure.passage, f"{NUMBER}|{WORD}"), text))
    assert len(found) == 1, f"{figure.page} contains {len(found)} passages {figure.passage!r}"
    return found[0]


def agrees(text: str, value: float, *, share: bool = False) -> bool:
    """Return whether a number is a value rounded to the digits shown. 0 % and 100 % must be exact."""
    shown = number(text)
    if share and shown in (0, 100) and value != shown:
        return False
    last_digit = 10.0 ** int(shown.as_tuple().exponent)
    return abs(float(shown) - value) <= 0.5 * last_digit * (1.0 + 1e-9)  # a 5 that follows may be rounded either way


def unlisted(text: str, listed: Sequence[tuple[int, int]]) -> Iterator[str]:
    """Yield each figure of a text outside of the listed spans, of code and of equations, with the words around it."""
    hidden = [*listed, *(match.span() for match in re.finditer(r"`[^`]*`|\$\$.*?\$\$|\$[^$]*\$", text))]
    hidden += [match.span() for match in CITED.finditer(text)]
    for match in FIGURE.finditer(text):
        if not any(start <= match.start() and match.end() <= end for start, end in hidden):
            yield f"{match.group()!r} in ... {text[max(0, match.start() - 40) : match.end() + 30]} ..."


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: f"{figure.page}: {figure.passage}")
def test_figure_is_the_one_of_the_results(figure):
    match = places(figure, prose_of(figure.page))
    found = figure.derive([value for source in figure.sources for value in values(source)])
    if not match.groups():
        assert found is True, f"{figure.page}: the results contradict {figure.passage!r}"
        return
    assert not isinstance(found, bool) and len(found) == len(match.groups())
    shares = [match.string.startswith((" %", "%"), match.end(i)) for i in range(1, len(found) + 1)]
    right = [
        agrees(shown, value, share=share) for shown, value, share in zip(match.groups(), found, shares, strict=True)
    ]
    assert all(right), (
        f"{figure.page}: {match.group()!r}, but the results have {', '.join(f'{value:g}' for value in found)}"
    )


@pytest.mark.parametrize("page", PAGES)
def test_each_number_of_the_page_has_a_source(page):
    text = prose_of(page)
    listed = [places(figure, text).span() for figure in FIGURES if figure.page == page]
    listed += [
        place.span()
        for words in NOT_MEASURED.values()
        for word in words
        for place in re.finditer(re.escape(word), text)
    ]
    assert list(unlisted(text, listed)) == []


def test_exceptions_occur():
    texts = [prose_of(page) for page in PAGES]
    assert [word for words in NOT_MEASURED.values() for word in words if not any(word in text for text in texts)] == []


def test_number_must_be_the_rounded_value():
    assert agrees("0.98", 0.982)
    assert agrees("2,000", 2000.0)
    assert agrees("ten", 10.0)
    assert agrees("2.5e-3", 0.00254)
    assert not agrees("0.8", 0.982)
    assert not agrees("2.5e-3", 0.0026)
    assert not agrees("2000", 3000.0)
    assert not agrees("0.98", float("nan"))


def test_hundred_percent_must_be_exact():
    assert agrees("100", 100.0, share=True)
    assert not agrees("100", 99.8, share=True)
    assert not agrees("0", 0.1, share=True)
    assert agrees("100", 99.8)


def test_unlisted_numbers_of_each_kind_are_found():
    text = "It takes 5 ms at 2000 poses, 0.3 more, ten times as long, 1e-6, and half of 7 % of 3k fail."
    assert [found.split("'")[1] for found in unlisted(text, [])] == [
        "5",
        "2000",
        "0.3",
        "ten",
        "1e-6",
        "half",
        "7",
        "3",
    ]
    assert list(unlisted(text, [(0, len(text))])) == []


def test_names_code_equations_and_citations_are_no_figures():
    text = "ROS 2 on x86-64, float64, `n=100`, $x^{20}$, three arms, joint 7, Burdick 1989, Becker et al. (2020)."
    assert list(unlisted(text, [])) == []


def test_row_of_results_is_found_below_its_heading(tmp_path, monkeypatch):
    monkeypatch.setattr(document_figures, "RESULTS", tmp_path)
    (tmp_path / "a.txt").write_text("arm 1\n  call, 5 seeds  0.5  9\n  call  1.5  8\n\narm 2\n  call  2.5e-3  7\n")
    assert values("a.txt: arm 2 >> call {} {}") == [0.0025, 7.0]
    assert values("a.txt: arm {} >> call ~ {}") == [1.0, 8.0]
    assert values("a.txt: call, {} seeds") == [5.0]
    with pytest.raises(AssertionError, match="has 2 rows"):
        values("a.txt: call {}")
    with pytest.raises(AssertionError, match="has 0 rows"):
        values("a.txt: arm 1 >> call {} 7")
