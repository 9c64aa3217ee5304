"""Pickles read as data."""

from __future__ import annotations

import collections
import pickle
import resource
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any

import pytest

from support.fuzz.reader_process import ReaderProcess
from torchdeck.distributed.checkpoints.files.inert_pickle import (
    INSTRUCTION_BYTES,
    MOST_INSTRUCTIONS,
    Name,
    Record,
    read_pickle,
)


def _read(content: bytes) -> Any:
    return read_pickle(content, lambda _: True)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_data_comes_back(protocol: int) -> None:
    """Lists, tuples, dicts, texts and numbers are what they were, one that stands twice too."""
    shared = [1, -2, 1 << 40, 0.5, "text", "é" * 300]
    value = {
        "a": shared,
        "b": (shared, (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)),
        "c": {3: [None, True, False]},
    }
    assert _read(pickle.dumps(value, protocol)) == value


def test_objects_are_records() -> None:
    """A call is what is called and with what; filling an object is what it is filled with."""
    found = _read(pickle.dumps(collections.OrderedDict(a=1), 2))
    assert isinstance(found, Record)
    assert (found.name, found.args, found.items) == (Name("collections", "OrderedDict"), (), {"a": 1})
    found = _read(b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R}X\x01\x00\x00\x00kK\x07sb.")
    assert (found.name, found.args, found.state) == (Name("os", "system"), ("true",), {"k": 7})


def test_what_is_not_allowed_is_named() -> None:
    """Whoever reads says which names may stand in it."""
    with pytest.raises(ValueError, match=r"asks for os\.system"):
        read_pickle(b"cos\nsystem\n.", lambda name: name.module != "os")


def _nested(depth: int) -> bytes:
    """A list of two lists that are the same one, and so on: 2^depth values in a few bytes."""
    return b"\x80\x04N\x94" + b"".join(b"](h%ch%ce\x94" % (i, i) for i in range(depth)) + b"."


def _hashed(depth: int) -> bytes:
    """The same of tuples, as a key."""
    return b"\x80\x04N\x94" + b"".join(b"h%ch%c\x86\x94" % (i, i) for i in range(depth)) + b"}h%cNs." % depth


HOSTILE = {
    "a memo index for which C's reader takes 16 GiB": (b"\x80\x02Nr\xff\xff\xff\x3fs.", "damaged"),
    "a text longer than the file": (b"\x80\x02X\xff\xff\xff\x7fabc.", "damaged"),
    "bytes of a length of their own": (b"\x80\x05\x96\xff\xff\xff\xff\x0f\x00\x00\x00N.", "damaged"),
    "lists of lists without end": (_nested(60), "repeats itself"),
    "a list in itself": (b"\x80\x02]q\x00h\x00a.", "repeats itself"),
    "a key that takes for ever to hash": (_hashed(60), "has a key"),
    "filling a class": (
        b"\x80\x02cpathlib\nPurePath\nN}X\x06\x00\x00\x00parentX\x04\x00\x00\x00evils\x86b.",
        "fills",
    ),
    "filling a text": (b"\x80\x02X\x01\x00\x00\x00a}b.", "fills what is not an object"),
    "calling a text": (b"\x80\x02X\x01\x00\x00\x00a)R.", "calls what is not a name"),
    "entries of a text": (b"\x80\x02X\x01\x00\x00\x00aNNs.", "fills what is not a mapping"),
    "an old instruction": (b"(S'true'\nios\nsystem\n.", "damaged"),
    "half of it": (pickle.dumps({"a": [1, 2]})[:-4], "damaged"),
    "nothing": (b"", "damaged"),
}


@pytest.mark.parametrize(("content", "said"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_pickles_are_refused_at_once(content: bytes, said: str) -> None:
    """With a sentence, no memory to speak of, and nothing changed in this process."""
    before, parent = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, PurePath.parent
    with pytest.raises(ValueError, match=said):
        _read(content)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10
    assert PurePath.parent is parent


LARGEST = INSTRUCTION_BYTES * MOST_INSTRUCTIONS


def _many(repeated: bytes, instructions: int, before: bytes = b"") -> bytes:
    """A list of what `repeated` makes, over and over, as often as is read."""
    often = min((LARGEST - 99) // len(repeated), (MOST_INSTRUCTIONS - 99) // instructions)
    return b"\x80\x04" + before + b"](" + repeated * often + b"e."


def _keys() -> bytes:
    """Of a mapping: numbers that all have the hash 0."""
    step = (1 << 61) - 1
    numbers = b"".join(b"\x8a\x0a" + (step * at).to_bytes(10, "little") + b"N" for at in range(300_000))
    return b"\x80\x04}(" + numbers + b"u."


def _text() -> bytes:
    """One character in it makes each of the others take four bytes."""
    text = "\U0001f600".encode().ljust(LARGEST - 99)
    return b"\x80\x04X" + len(text).to_bytes(4, "little") + text + b"."


EXPENSIVE = {
    "mappings": lambda: _many(b"}", 1),
    "keys": _keys,
    "lists": lambda: _many(b"]", 1),
    "marks": lambda: _many(b"(N", 2),
    "memo": lambda: _many(b"N\x94", 2),
    "entries": lambda: _many(b"}h\x00Ns", 4, b"K\x01\x94"),
    "objects": lambda: _many(b"h\x00)\x81", 3, b"ctorch\nSize\n\x94"),
    "names": lambda: _many(b"ctorch\nSize\n", 1),
    "texts": lambda: _many("X\x04\0\0\0\U0001f600".encode(), 1),
    "a text": _text,
}


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[] if kind in ("keys", "a text") else pytest.mark.soak) for kind in EXPENSIVE],
)
def test_none_takes_much_time_or_memory(kind: str) -> None:
    with ReaderProcess(_read_or_refuse) as process:
        process.read(EXPENSIVE[kind]())


def _read_or_refuse(content: bytes, _: Path) -> None:
    with suppress(ValueError):
        _read(content)
