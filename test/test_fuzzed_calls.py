"""The first of the calls that `make fuzz` makes: none raises what is no error of the package, and none warns."""

from __future__ import annotations

import fuzz_api


def test_malformed_calls_are_answered_or_refused() -> None:
    found = fuzz_api.tally(0, range(1500))
    assert not found.foreign
    assert found.counts["answered"] > 150  # the values are not all so wrong that nothing is reached
    assert found.counts["refused"] > 500
