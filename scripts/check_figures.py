"""Check that each figure of README.md, CONTRIBUTING.md and docs comes from a committed result, or is a known exception.

Usage: python -m scripts.check_figures

Run this script after you repeat a benchmark. The script prints each passage that disagrees, with its figures according
to the current results. A new number in a document needs an entry in FIGURES of document_figures.py, which names the
source of the number. A number that was not measured, such as a definition, needs an entry in NOT_MEASURED. A figure
without a file does not belong in a document.
"""

import re
import sys
from collections.abc import Iterator, Sequence

from scripts.document_figures import (
    FIGURES,
    NOT_MEASURED,
    NUMBER,
    ROOT,
    WORD,
    Figure,
    ResultError,
    number,
    pattern,
    values,
)

ELSEWHERE = {
    # The report is generated, and test/studies/test_report.py compares it with the tables.
    *(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/report/*.md")),
    "docs/reference/notation.md",  # only numbers of equations and chapters
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
# numbers with a unit, a point, an exponent or several digits; number words only in ratios and shares
FIGURE = re.compile(
    rf"(?<![\w.^_-])(?:{NUMBER}(?=[ -]?{UNIT})|(?:\d+\.\d+(?:e-?\d+)?|\d+e-?\d+|\d[\d,]*\d)(?![\w-]))"
    rf"|{WORD}(?= times| of (?:{WORD}|\d))|\b(?:half|third|quarter|fifth|tenth)(?= of )"
)
CITED = re.compile(r"(?:[A-Z][\w.]+,?|al\.|\() ?(?:19|20)\d\d\b")  # such as Burdick 1989, or Becker et al. (2020)


def prose_of(page: str) -> str:
    """Return a page as one line, without code blocks, comments and targets of links."""
    text = (ROOT / page).read_text(encoding="utf-8")
    text = re.sub(
        r"^(```|~~~).*?^\1|<!--.*?-->|\]\(.*?\)|\*\*", lambda m: "]" * m[0].startswith("]"), text, flags=re.S | re.M
    )
    return re.sub(r"\s+", " ", text)


def places(figure: Figure, text: str) -> re.Match[str]:
    """Find the passage of a figure in the text of its page."""
    found = list(re.finditer(pattern(figure.passage, f"{NUMBER}|{WORD}"), text))
    if len(found) != 1:
        raise ResultError(
            f"the page must contain the passage {figure.passage!r} once, but contains it {len(found)} times"
        )
    return found[0]


def agrees(text: str, value: float, *, share: bool = False) -> bool:
    """Return whether a number equals a value after rounding to its digits. 0 % and 100 % must be exact."""
    shown = number(text)
    if share and shown in (0, 100) and value != shown:
        return False
    last_digit = 10.0 ** int(shown.as_tuple().exponent)
    return abs(float(shown) - value) <= 0.5 * last_digit * (1.0 + 1e-9)  # a final 5 may be rounded up or down


def unlisted(text: str, listed: Sequence[tuple[int, int]]) -> Iterator[str]:
    """Yield each figure outside of the listed spans, of code and of equations, with the words around it."""
    hidden = [*listed, *(match.span() for match in re.finditer(r"`[^`]*`|\$\$.*?\$\$|\$[^$]*\$", text))]
    hidden += [match.span() for match in CITED.finditer(text)]
    for match in FIGURE.finditer(text):
        if not any(start <= match.start() and match.end() <= end for start, end in hidden):
            yield f"{match.group()!r} in ... {text[max(0, match.start() - 40) : match.end() + 30]} ..."


def check_figure(figure: Figure) -> None:
    """Raise an error if the passage of a figure disagrees with the results."""
    match = places(figure, prose_of(figure.page))
    found = figure.derive([value for source in figure.sources for value in values(source)])
    if not match.groups():
        if found is not True:
            raise ResultError(f"the results contradict {figure.passage!r}")
        return
    if isinstance(found, bool) or len(found) != len(match.groups()):
        raise ResultError(f"{figure.passage!r} has {len(match.groups())} figures, but the entry derives {found}")
    shares = [match.string.startswith((" %", "%"), match.end(i)) for i in range(1, len(found) + 1)]
    shown = zip(match.groups(), found, shares, strict=True)
    if not all(agrees(text, value, share=share) for text, value, share in shown):
        raise ResultError(
            f"the page has {match.group()!r}, but the results have {', '.join(f'{value:g}' for value in found)}"
        )


def check_page(page: str) -> None:
    """Raise an error if a number of a page has no source."""
    text = prose_of(page)
    listed = [places(figure, text).span() for figure in FIGURES if figure.page == page]
    for word in (word for words in NOT_MEASURED.values() for word in words):
        listed += [place.span() for place in re.finditer(re.escape(word), text)]
    if without := list(unlisted(text, listed)):
        raise ResultError(f"these numbers have no entry in document_figures.py: {'; '.join(without)}")


def main() -> int:
    """Print all figures that disagree, numbers without a source, and entries that no page needs."""
    problems = []
    for check, items in ((check_figure, FIGURES), (check_page, PAGES)):
        for item in items:
            try:
                check(item)
            except ResultError as error:
                problems.append(f"{item.page if isinstance(item, Figure) else item}: {error}")
    texts = [prose_of(page) for page in PAGES]
    exceptions = [word for words in NOT_MEASURED.values() for word in words]
    problems += [
        f"no page contains {word!r}; remove it from NOT_MEASURED"
        for word in exceptions
        if not any(word in text for text in texts)
    ]
    print("".join(f"{problem}\n" for problem in problems), end="")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
