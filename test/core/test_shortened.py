"""Messages quote values of requests and files, which may be of any length."""

from __future__ import annotations

import pytest

from eim_ros.core.errors import LONGEST_MESSAGE, LONGEST_WORD, EimError, shortened


@pytest.mark.parametrize("value", [1_000_000 * "a", 1_000_000 * "a b ", 1_000_000 * "\n", 1000 * (400 * "é" + " ")])
def test_a_long_message_keeps_its_beginning_and_its_end(value: str) -> None:
    text = shortened(f"the frame is {value!r}, expected the base link")
    assert len(text) <= LONGEST_MESSAGE
    assert max(map(len, text.split(" "))) <= LONGEST_WORD
    assert text.startswith("the frame is ")
    assert text.endswith(", expected the base link")
    assert shortened(text) == text


@pytest.mark.parametrize("text", ["", "expected 3 joints", LONGEST_WORD * "a", (LONGEST_MESSAGE // 10) * "123456789 "])
def test_other_messages_stay_as_they_are(text: str) -> None:
    assert shortened(text) == text


def test_an_error_shortens_its_message_and_keeps_its_value() -> None:
    value = 1_000_000 * "a"
    error = EimError(f"the frame is {value}, expected the base link", value)
    assert len(str(error)) < LONGEST_MESSAGE
    assert error.value is value
