"""Arguments of a function are checked before it runs: names, spellings, kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np
import pytest

from torchdeck.contract.arguments.checked_call import arguments, checked_class
from torchdeck.contract.arguments.errors import ArgumentError, nearest, shown
from torchdeck.contract.arguments.types import described, fits

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Options(TypedDict, total=False):
    """Keywords of `made`."""

    depth: int


@arguments(also={"size": "width"})
def made(name: str, width: int = 1, *, share: float = 0.5, **options: Unpack[Options]) -> Any:
    """Return what it was given."""
    return (name, width, share, options)


@arguments(own_checks=True)
def halved(number: float) -> float:
    """Return the half; fails by itself for what is no number."""
    return number / 2


@checked_class
@dataclass(frozen=True)
class Point:
    """A class whose `__init__` is generated."""

    x: int
    y: int = 0


make: Callable[..., Any] = made
point: Callable[..., Any] = Point


def test_right_calls_run() -> None:
    """By position, by keyword, under another spelling, and with keywords of a TypedDict."""
    assert make("a", 2) == ("a", 2, 0.5, {})
    assert make(name="a", size=3, share=1, depth=4) == ("a", 3, 1, {"depth": 4})
    assert make("a", np.int64(2), share=np.float32(0.5))[1] == 2
    assert point(1) == Point(1, 0)
    assert halved(3) == 1.5


@pytest.mark.parametrize(
    ("call", "what", "fix"),
    [
        (lambda: make("a", widht=2), "made has no argument 'widht'", "did you mean 'width'?"),
        (lambda: make("a", siez=2), "made has no argument 'siez'", "did you mean 'width'?"),
        (lambda: make("a", dept=2), "made has no argument 'dept'", "did you mean 'depth'?"),
        (lambda: make("a", xyzzy=2), "made has no argument 'xyzzy'", "leave it out"),
        (lambda: make("a", width=1, size=2), "made has both width and size", "leave out size"),
        (lambda: make(), "made needs name", "give name"),
        (lambda: make("a", 1, 2), "made cannot be called so", "its arguments by position are name, width"),
        (lambda: make(3), "name is 3", "expected a text"),
        (lambda: make("a", width=True), "width is True", "expected a whole number"),
        (lambda: make("a", share="1"), "share is '1'", "expected a number"),
        (lambda: make("a", depth=1.5), "depth is 1.5", "expected a whole number"),
        (lambda: point(z=1), "Point has no argument 'z'", "leave it out"),
    ],
)
def test_wrong_calls_say_what_is_right(call: Callable[[], Any], what: str, fix: str) -> None:
    """The error has fields, and is a TypeError and a ValueError, whichever is expected."""
    with pytest.raises(ArgumentError) as caught:
        call()
    assert caught.value.what.startswith(what)
    assert caught.value.fix == fix
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, ValueError)


def test_errors_of_the_function_are_its_own() -> None:
    """An error is replaced only if an argument is of the wrong kind."""
    wrong: Any = "3"
    with pytest.raises(ArgumentError, match="number is '3': expected a number"):
        halved(wrong)

    @arguments(own_checks=True)
    def failing(number: int) -> float:
        return 1 / number

    with pytest.raises(ZeroDivisionError):
        failing(0)


@pytest.mark.parametrize(
    ("hint", "right", "wrong", "words"),
    [
        (int | None, [1, None, np.int8(1)], [1.0, "1", True], "a whole number or None"),
        (float, [1, 1.5, np.float64(1)], ["1", None, False], "a number"),
        (bool, [True, np.bool_(0)], [1, "yes"], "True or False"),
        (Literal["a", "b"], ["a"], ["c", 1], "'a' or 'b'"),
        (tuple[float, float], [(1, 2), [1.0, 2.0]], [(1,), 3], "two numbers"),
        (Mapping[str, Any], [{}], [[], "a"], "a mapping"),
        (Sequence[int], [[1], (1,), np.zeros(2)], ["ab", 3], "a sequence"),
        (Callable[[int], int], [abs], [3], "a function"),
    ],
    ids=str,
)
def test_kinds(hint: Any, right: list[Any], wrong: list[Any], words: str) -> None:
    """NumPy's numbers are numbers, whole numbers are floats, and texts are no sequences."""
    assert all(fits(value, hint) for value in right)
    assert not any(fits(value, hint) for value in wrong)
    assert described(hint) == words


def test_names_and_values_in_messages() -> None:
    """The nearest name is one that resembles, or shares a word; long values are cut."""
    assert nearest("worldsize", ["rank", "world_size"]) == "world_size"
    assert nearest("norm", ["max_norm", "rank"]) == "max_norm"
    assert nearest("xyzzy", ["rank"]) is None
    assert shown(object()) == "an object of type object"
    assert len(shown("a" * 500)) < 100
