"""JSON from another process or machine: its size, depth and numbers are bounded before it is used.

`json.loads` accepts more than JSON, and some of it fails later: nesting that ends in a RecursionError,
integers of 400 digits that overflow as a float, NaN and Infinity, lone surrogates that cannot be written to a
file. Here a document is refused with one error, `JsonError`, or its value is safe to compare, print and
write.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any, NoReturn

from torchdeck.contract.bounded_file import UnreadableFileError, read_bounded
from torchdeck.contract.byte_size import size

LIMIT = 32 * 1024 * 1024
"""Most bytes of a document. Default: unless the caller gives another limit."""
BYTES_PER_VALUE = 16
"""Bytes of the limit per allowed comma or bracket: `[{},{},...]` fills memory."""
DEPTH = 64
"""Most nested objects and lists."""
_DIGITS = 100
"""Most characters of a number: converting one takes time that grows with the square of its length."""
_LARGEST = 2**64
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class JsonError(ValueError):
    """The bytes are not JSON within the bounds; the message gives the reason."""


def parse_json(
    content: bytes,
    *,
    limit: int = LIMIT,
    depth: int = DEPTH,
    file_names: bool = False,
    python_numbers: bool = False,
) -> Any:
    """Parse one JSON document.

    Integers are below 2**64 in magnitude, floats are finite, and text holds no lone surrogates. If a key
    occurs twice, the last value counts.

    Args:
        content: UTF-8, without a byte order mark.
        limit: most bytes that it may have.
        depth: most nested objects and lists that it may have.
        file_names: accept the surrogates that stand for bytes of file names (`os.fsdecode`).
        python_numbers: accept what Python writes, too: NaN, Infinity and integers of up to 100 digits.

    Raises:
        JsonError: it is not JSON, or exceeds a bound.
    """
    if len(content) > limit:
        raise JsonError(f"it is larger than {size(limit)}")
    brackets = content.count(b"[") + content.count(b"{")
    if brackets + content.count(b",") > max(limit, 1024) // BYTES_PER_VALUE:
        raise JsonError(f"it has more than {max(limit, 1024) // BYTES_PER_VALUE} values")
    try:
        value = (_PYTHON_DECODER if python_numbers else _DECODER).decode(content.decode("utf-8"))
        if brackets > depth and isinstance(value, (dict, list)):
            _check_depth(value, depth)
        if _SURROGATE.search(content):
            json.dumps(value, ensure_ascii=False).encode(
                "utf-8", "surrogateescape" if file_names else "strict"
            )
    except JsonError:
        raise
    except RecursionError:
        raise JsonError(_too_deep(depth)) from None
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        raise JsonError(f"its text is not Unicode: {error.reason}") from None
    except ValueError as error:
        raise JsonError(f"it is not JSON: {error}") from None
    return value


def parse_json_object(
    content: bytes, *, limit: int = LIMIT, depth: int = DEPTH, file_names: bool = False
) -> dict[str, Any]:
    """Parse a document that must be an object, as `parse_json`.

    Raises:
        JsonError: it is none, or exceeds a bound.
    """
    value = parse_json(content, limit=limit, depth=depth, file_names=file_names)
    if not isinstance(value, dict):
        raise JsonError("it is not a JSON object")
    return value


def read_json_file(path: Path, *, limit: int = LIMIT, depth: int = DEPTH) -> Any:
    """Return the JSON value in the regular file at `path`.

    Raises:
        OSError: it cannot be opened or read.
        JsonError: it is no regular file, is not JSON, or exceeds a bound.
    """
    try:
        return parse_json(read_bounded(path, limit), limit=limit, depth=depth)
    except UnreadableFileError as error:
        raise JsonError(str(error)) from None


def _too_deep(depth: int) -> str:
    return f"it has more than {depth} objects or lists inside one another"


def _check_depth(value: Any, depth: int) -> None:
    level = [value]
    for _ in range(depth):
        level = [
            child
            for item in level
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return
    raise JsonError(_too_deep(depth))


def _long_integer(text: str) -> int:
    if len(text) > _DIGITS:
        raise JsonError(f"the number {text[:24]}... is out of range")
    return int(text)


def _integer(text: str) -> int:
    value = _long_integer(text)
    if not -_LARGEST < value < _LARGEST:
        raise JsonError(f"the number {text[:24]}... is out of range")
    return value


def _float(text: str) -> float:
    value = float(text) if len(text) <= _DIGITS else math.inf
    if not math.isfinite(value):
        raise JsonError(f"the number {text[:24]}... is out of range")
    return value


def _constant(text: str) -> NoReturn:
    raise JsonError(f"{text} is not a number in JSON")


_DECODER = json.JSONDecoder(parse_float=_float, parse_int=_integer, parse_constant=_constant)
_PYTHON_DECODER = json.JSONDecoder(parse_int=_long_integer)
"""Created once: decoders keep nothing of a document."""
