"""Every number in a document must agree with results in all digits shown. `make lint` checks the documents."""

import pytest

from scripts import document_figures
from scripts.check_figures import agrees, unlisted
from scripts.document_figures import ResultError, values


@pytest.mark.parametrize(
    ("shown", "value", "share", "expected"),
    [
        ("0.98", 0.982, False, True),
        ("2,000", 2000.0, False, True),
        ("ten", 10.0, False, True),
        ("2.5e-3", 0.00254, False, True),
        ("0.8", 0.982, False, False),
        ("2.5e-3", 0.0026, False, False),
        ("2000", 3000.0, False, False),
        ("0.98", float("nan"), False, False),
        ("100", 100.0, True, True),
        ("100", 99.8, True, False),  # 0 % and 100 % must be exact
        ("0", 0.1, True, False),
        ("100", 99.8, False, True),
    ],
)
def test_number_must_be_the_rounded_value(shown, value, share, expected):
    assert agrees(shown, value, share=share) is expected


def test_unlisted_numbers_of_each_kind_are_found():
    text = "It takes 5 ms at 2000 poses, 0.3 more, ten times as long, 1e-6, and half of 7 % of 3k fail."
    found = [found.split("'")[1] for found in unlisted(text, [])]
    assert found == ["5", "2000", "0.3", "ten", "1e-6", "half", "7", "3"]
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
    with pytest.raises(ResultError, match="but has it 2 times"):
        values("a.txt: call {}")
    with pytest.raises(ResultError, match="but has it 0 times"):
        values("a.txt: arm 1 >> call {} 7")
