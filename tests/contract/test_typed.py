"""Values read from JSON, checked by the annotations of their class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from torchdeck.contract.plan.typed import WrongTypeError, check_fields


@dataclass(frozen=True)
class Inner:
    number: float
    pair: tuple[int, str] = (1, "a")


@dataclass(frozen=True)
class Outer:
    name: str
    count: int = 0
    several: tuple[Inner, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    maybe: Inner | None = None
    either: int | str = 1
    anything: Any = None


@pytest.mark.parametrize(
    "value",
    [
        Outer("a"),
        Outer("a", 2**63 - 1, (Inner(1), Inner(1.5, (2, "b"))), {"x": "y"}, Inner(0.0), "text", [{}]),
    ],
)
def test_what_fits_is_accepted(value: Outer) -> None:
    check_fields(value)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": None}, "name is None, not str"),
        ({"count": True}, "count is True, not int"),
        ({"count": 2**63}, "count is 9223372036854775808"),
        ({"count": 1.0}, "count is 1.0, not int"),
        ({"several": "ab"}, "several is 'ab', not a list"),
        ({"several": ({},)}, r"several\[0\] is {}, not a Inner"),
        ({"several": (Inner("x"),)}, r"several\[0\].number is 'x', not float"),  # type: ignore[arg-type]  # the point
        ({"texts": []}, r"texts is \[\], not an object"),
        ({"texts": {"a": 1}}, "texts.a is 1, not str"),
        ({"maybe": 1}, "maybe is 1, not a Inner"),
        ({"maybe": Inner(1.0, (1, 2))}, "maybe.pair is 2, not str"),  # type: ignore[arg-type]  # the point
        ({"maybe": Inner(1.0, (1,))}, "maybe.pair is .*, not a list of 2"),  # type: ignore[arg-type]  # the point
        ({"either": None}, "either is None, not str"),
    ],
)
def test_what_does_not_fit_is_named(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(WrongTypeError, match=said):
        check_fields(Outer(**{"name": "a", **fields}))
