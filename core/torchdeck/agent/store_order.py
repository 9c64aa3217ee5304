"""Order of the agent to torchrun, on standard input and nowhere else: one line of JSON.

`{"key": hexadecimal, "strangers": path}`: the key by which the nodes of an attempt know each other (empty on
one node), and the file that counts connections without it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import select
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torchdeck.contract.atomic import read_json
from torchdeck.contract.bounded_json import parse_json_object

VARIABLE = "TORCHDECK_STORE_ORDER"
"""If set, the order is on standard input."""
_LIMIT = 4096
_READ_LIMIT = 30.0
"""Seconds in which whoever started this process must have written it."""


class StoreOrder(NamedTuple):
    """How this torchrun's store is closed."""

    key: bytes = b""
    strangers: Path | None = None

    def line(self) -> bytes:
        value = {"key": self.key.hex(), "strangers": "" if self.strangers is None else str(self.strangers)}
        return json.dumps(value).encode() + b"\n"


def key_of(token: str, run_id: str, attempt: int) -> bytes:
    """The key of one attempt; nothing about the gang's token follows from it."""
    if not token:
        return b""
    return hmac.new(token.encode(), f"store:{run_id}:{attempt}".encode(), hashlib.sha256).digest()


def read_order() -> StoreOrder:
    """Read standard input if VARIABLE asks for it, once; no child reads it or sees the variable.

    Raises:
        ValueError: it is something else.
    """
    if not os.environ.pop(VARIABLE, ""):
        return StoreOrder()
    line = _line()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return order_from(line)


def _line() -> bytes:
    content = b""
    while b"\n" not in content and len(content) <= _LIMIT:
        if not select.select([0], [], [], _READ_LIMIT)[0]:
            raise ValueError(f"no order for the store came on standard input within {_READ_LIMIT:.0f} s")
        piece = os.read(0, _LIMIT)
        if not piece:
            break
        content += piece
    return content


def order_from(line: bytes) -> StoreOrder:
    """The order in `line`. Raises ValueError."""
    if not line.strip():
        return StoreOrder()
    value = parse_json_object(line, limit=_LIMIT)
    key, strangers = value.get("key"), value.get("strangers")
    if type(key) is not str or type(strangers) is not str:
        raise ValueError("standard input has no order for the store")
    return StoreOrder(bytes.fromhex(key), Path(strangers) if strangers else None)


_LONGEST = 500
"""Characters of a reason."""
_AGAIN = 10
"""Reported when there are so many times as many as the last time."""


class StoreStrangers:
    """Refused connections of one attempt."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = 0
        self._reported = 0

    def news(self) -> Mapping[str, Any] | None:
        """Return the fields of an event if it is due: for the first, and each time there are many more."""
        try:
            changed = self._path.stat().st_mtime_ns
        except OSError:
            return None
        if changed == self._seen:
            return None
        self._seen = changed
        value = read_json(self._path)
        count = value.get("count") if isinstance(value, dict) else None
        if type(count) is not int or count < max(1, self._reported * _AGAIN):
            return None
        self._reported = count
        texts = {name: str(value.get(name, ""))[:_LONGEST] for name in ("address", "why")}
        return {"count": count, **texts}
