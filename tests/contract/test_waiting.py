"""Waiting with a time limit."""

import time

import pytest

from torchdeck.contract.waiting import wait_for


@pytest.mark.parametrize("value", [True, 0, "", 7])
def test_the_first_value_ends_the_wait(value: object) -> None:
    """0 and an empty text are values: an exit code, a file's content."""
    values = iter([None, False, value, "too late"])
    assert wait_for(lambda: next(values), 60.0, 0.0) == value
    assert next(values) == "too late"


@pytest.mark.parametrize("value", [None, False])
def test_the_limit_ends_the_wait(value: object) -> None:
    """Not before it is over; without a limit there is one look."""
    looks: list[float] = []

    def look() -> object:
        looks.append(time.monotonic())
        return value

    begun = time.monotonic()
    assert wait_for(look, 0.05, 0.001) is value
    assert time.monotonic() - begun >= 0.05
    assert len(looks) > 1
    looks.clear()
    assert wait_for(look, 0.0, 60.0) is value
    assert len(looks) == 1
