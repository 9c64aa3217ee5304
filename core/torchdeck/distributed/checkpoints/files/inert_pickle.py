"""Pickles read as data: nothing that they ask for is called, looked up or made.

A pickle is a program for a small machine (https://docs.python.org/3/library/pickletools.html lists its
instructions). Here only those run that data needs. A class or function becomes a `Name`, calling it a
`Record` of its arguments; whoever wants more builds it from them by value. The reader is pickle's own in
Python, as that in C makes room for whatever memo index a file names, and would hash whatever stands as a key.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

LARGEST = 256 << 20
"""Bytes of a pickle; a hundred for each shard of a tensor, so far above what any number of ranks makes."""
_SHARED = 8
"""Values for each byte of a pickle, where one that stands in several places counts in each."""
_INSTRUCTIONS = (
    pickle.PROTO + pickle.FRAME + pickle.STOP + pickle.MARK,
    pickle.NONE + pickle.NEWTRUE + pickle.NEWFALSE + pickle.BINFLOAT,
    pickle.BININT + pickle.BININT1 + pickle.BININT2 + pickle.LONG1,
    pickle.BINUNICODE + pickle.SHORT_BINUNICODE,
    pickle.EMPTY_TUPLE + pickle.TUPLE + pickle.TUPLE1 + pickle.TUPLE2 + pickle.TUPLE3,
    pickle.EMPTY_LIST + pickle.APPEND + pickle.APPENDS + pickle.EMPTY_DICT,
    pickle.BINPUT + pickle.LONG_BINPUT + pickle.MEMOIZE + pickle.BINGET + pickle.LONG_BINGET,
    pickle.GLOBAL + pickle.STACK_GLOBAL + pickle.BINPERSID,
)


class Name(NamedTuple):
    """A class, function or constant that a pickle names."""

    module: str
    name: str


class Record:
    """What a call of `name` would have given."""

    def __init__(self, name: Name | None, args: Any) -> None:
        self.name = name
        """None for an object outside the pickle; `args` is what it is called there."""
        self.args = args
        self.state: Any = None
        """What it would have been filled with."""
        self.items: dict[Any, Any] = {}
        """What it would have been given key by key, as a mapping."""


Allowed = Callable[[Name], bool]


def read_pickle(content: bytes, allowed: Allowed) -> Any:
    """The value of a pickle: lists, tuples, dicts, texts, numbers, `Name` and `Record`.

    Args:
        content: the pickle.
        allowed: says of a name whether the pickle may contain it.

    Raises:
        ValueError: it is damaged, asks for what is not allowed, or claims more than its bytes can say.
    """
    if len(content) > LARGEST:
        raise ValueError(f"it has {len(content)} bytes, {LARGEST} at most are read")
    try:
        value = _Reader(content, allowed).load()
        _check_size(value, _SHARED * len(content))
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"it is damaged, or no data ({type(error).__name__})") from error
    return value


def parts_of(value: Any) -> list[Any]:
    """The values that `value` directly consists of."""
    if isinstance(value, Record):
        return [value.args, value.state, value.items]
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, (list, tuple)) and not isinstance(value, Name):
        return list(value)
    return []


def _check_size(value: Any, limit: int) -> None:
    """Refuse lists of lists of … that share parts, or contain themselves: walking through them has no end."""
    left, count = [value], 0
    while left:
        parts = parts_of(left.pop())
        count += len(parts)
        if count > limit:
            raise ValueError("it repeats itself beyond what any checkpoint does")
        left += parts


class _Reader(pickle._Unpickler):  # noqa: SLF001 - the documented one calls what a pickle asks for
    stack: list[Any]
    append: Callable[[Any], None]
    pop_mark: Callable[[], list[Any]]

    def __init__(self, content: bytes, allowed: Allowed) -> None:
        super().__init__(io.BytesIO(content))
        self._allowed = allowed

    def find_class(self, module: str, name: str) -> Any:
        asked = Name(module, name)
        if not self._allowed(asked):
            raise ValueError(f"it asks for {module}.{name}, which no checkpoint needs")
        return asked

    def persistent_load(self, pid: Any) -> Any:
        return Record(None, pid)

    def load_call(self) -> None:
        args = self.stack.pop()
        name = self.stack.pop()
        if not isinstance(name, Name) or type(args) is not tuple:
            raise ValueError("it calls what is not a name")
        self.append(Record(name, args))

    def load_build(self) -> None:
        state = self.stack.pop()
        if not isinstance(self.stack[-1], Record):
            raise ValueError("it fills what is not an object")  # noqa: TRY004 - of a file
        self.stack[-1].state = state

    def load_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._fill([key, value])

    def load_setitems(self) -> None:
        self._fill(self.pop_mark())

    def _fill(self, items: list[Any]) -> None:
        target = self.stack[-1]
        mapping = target.items if isinstance(target, Record) else target
        if type(mapping) is not dict:
            raise ValueError("it fills what is not a mapping")
        for key, value in zip(items[::2], items[1::2], strict=True):
            # a tuple of tuples of … that share parts takes for ever to hash
            if type(key) not in (str, int, Record):
                raise ValueError("it has a key that is neither text, number nor object")
            mapping[key] = value

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        **{code: pickle._Unpickler.dispatch[code] for code in b"".join(_INSTRUCTIONS)},  # noqa: SLF001
        pickle.REDUCE[0]: load_call,
        pickle.NEWOBJ[0]: load_call,
        pickle.BUILD[0]: load_build,
        pickle.SETITEM[0]: load_setitem,
        pickle.SETITEMS[0]: load_setitems,
    }
