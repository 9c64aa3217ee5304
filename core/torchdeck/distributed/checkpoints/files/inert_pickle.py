"""Pickles read as data: nothing that they request is called, imported or created.

A pickle is a program for a small machine (https://docs.python.org/3/library/pickletools.html lists its
instructions). Only the instructions that data needs run here. A class or function becomes a `Name`, a call of
it a `Record` of its arguments; callers build further objects from them by value. The reader is pickle's own
in Python. The C version allocates space for any memo index that a file names, and hashes any value used as a
key.
"""

from __future__ import annotations

import gc
import io
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

from torchdeck.contract.byte_size import size

MOST_INSTRUCTIONS = 8_000_000
"""Most instructions of a pickle, unless the caller expects more. A shard of a tensor takes 70. This many of
the most expensive ones take seconds, and less than 1 GiB.
"""
INSTRUCTION_BYTES = 4
"""Bytes of a pickle for each of them. A shard takes 140."""
_MOST_MARKS = 1_000
"""Maximum nesting of lists, tuples and mappings in a pickle."""
_SHARED = 10_000
"""Values that a pickle may have in excess of its number of instructions; a shared one counts at each
occurrence. A checkpoint has two thirds as many values as instructions.
"""
_INSTRUCTIONS = (
    pickle.PROTO + pickle.NONE + pickle.NEWTRUE + pickle.NEWFALSE + pickle.BINFLOAT,
    pickle.BININT + pickle.BININT1 + pickle.BININT2 + pickle.LONG1,
    pickle.BINUNICODE + pickle.SHORT_BINUNICODE,
    pickle.EMPTY_TUPLE + pickle.TUPLE + pickle.TUPLE1 + pickle.TUPLE2 + pickle.TUPLE3,
    pickle.EMPTY_LIST + pickle.APPEND + pickle.APPENDS + pickle.EMPTY_DICT,
    pickle.BINGET + pickle.LONG_BINGET,
    pickle.GLOBAL + pickle.STACK_GLOBAL + pickle.BINPERSID,
)


class Name(NamedTuple):
    """A class, function or constant named by a pickle."""

    module: str
    name: str


class Record:
    """Stands for the result of calling `name`."""

    __slots__ = ("args", "items", "name", "state")

    def __init__(self, name: Name | None, args: Any) -> None:
        self.name = name
        """None for an object outside the pickle; `args` is what it is called there."""
        self.args = args
        self.state: Any = None
        """State that it would have been given."""
        self.items: dict[Any, Any] | None = None
        """Items that it would have been given key by key, as a mapping."""


Allowed = Callable[[Name], bool]
_HOLDERS = (Record, dict, list, tuple)
_SMALLEST_KEY, _LARGEST_KEY = -(1 << 63), (1 << 63) - 1


@contextmanager
def no_garbage_collections() -> Iterator[None]:
    """Disable garbage collection while millions of live values are created: scanning them doubles the
    time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@no_garbage_collections()
def read_pickle(content: bytes, allowed: Allowed, *, most: int = MOST_INSTRUCTIONS) -> Any:
    """Return the value of a pickle: lists, tuples, dicts, strings, numbers, `Name` and `Record`.

    Args:
        content: the pickle.
        allowed: returns whether the pickle may contain a name.
        most: maximum number of instructions.

    Raises:
        ValueError: it is damaged, requests something not allowed, or claims more than its bytes can hold.
    """
    if len(content) > INSTRUCTION_BYTES * most:
        raise ValueError(f"it has {size(len(content))}, {size(INSTRUCTION_BYTES * most)} at most are read")
    try:
        reader = _Reader(content, allowed)
        value = reader.run(most)
        _check_size(value, reader.instructions + _SHARED)
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"it is damaged, or no data ({type(error).__name__})") from error
    return value


def parts_of(value: Any) -> list[Any]:
    """Return the direct children of `value`."""
    if isinstance(value, Record):
        return [value.args, value.state, value.items]
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, (list, tuple)) and not isinstance(value, Name):
        return list(value)
    return []


def _check_size(value: Any, limit: int) -> None:
    """Reject nested lists that share parts or contain themselves: traversing them would not terminate."""
    left, count = [value], 0
    while left:
        parts = parts_of(left.pop())
        count += len(parts)
        if count > limit:
            raise ValueError("it repeats itself beyond what any checkpoint does")
        left += [part for part in parts if type(part) in _HOLDERS]


class _Reader(pickle._Unpickler):  # noqa: SLF001 - the documented one calls what a pickle asks for
    read: Callable[[int], bytes]
    readline: Callable[[], bytes]
    stack: list[Any]
    metastack: list[list[Any]]
    memo: list[Any]
    append: Callable[[Any], None]
    pop_mark: Callable[[], list[Any]]

    def __init__(self, content: bytes, allowed: Allowed) -> None:
        file = io.BytesIO(content)
        super().__init__(file)
        self.read, self.readline = file.read, file.readline
        self.stack, self.metastack, self.memo = [], [], []
        self.append = self.stack.append
        self.instructions = 0
        self._allowed = allowed

    def run(self, most: int) -> Any:
        """Return the value, created by `most` instructions at most."""
        read, dispatch = self.read, self.dispatch
        for self.instructions in range(most):
            instruction = read(1)
            if instruction == pickle.STOP:
                return self.stack.pop()
            dispatch[instruction[0]](self)
        raise ValueError(f"it has more than {most:,} instructions")

    def find_class(self, module: str, name: str) -> Any:
        asked = Name(module, name)
        if not self._allowed(asked):
            raise ValueError(f"it asks for {module}.{name}, which no checkpoint needs")
        return asked

    def persistent_load(self, pid: Any) -> Any:
        return Record(None, pid)

    def load_frame(self) -> None:
        self.read(8)  # its length, used only by stream readers

    def load_mark(self) -> None:
        if len(self.metastack) == _MOST_MARKS:
            raise ValueError("it is nested too deeply")
        self.metastack.append(self.stack)
        self.stack = []
        self.append = self.stack.append

    def load_memoize(self) -> None:
        self.memo.append(self.stack[-1])

    def load_binput(self) -> None:
        self._remember(self.read(1)[0])

    def load_long_binput(self) -> None:
        self._remember(int.from_bytes(self.read(4), "little"))

    def _remember(self, at: int) -> None:
        self.memo[at : at + 1] = [self.stack[-1]]  # pickle writers number them from 0 upwards
        if at >= len(self.memo):
            raise ValueError("it is damaged: it leaves out an entry of its memo")

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
        if isinstance(target, Record):
            target.items = {} if target.items is None else target.items
            target = target.items
        if type(target) is not dict:
            raise ValueError("it fills what is not a mapping")
        for key, value in zip(items[::2], items[1::2], strict=True):
            # nested tuples that share parts take exponential time to hash
            if type(key) not in (str, int, Record):
                raise ValueError("it has a key that is neither text, number nor object")
            # many long numbers have the same hash, so that each is compared with all before it
            if type(key) is int and not _SMALLEST_KEY <= key <= _LARGEST_KEY:
                raise ValueError("it has a number as a key that no checkpoint has")
            target[key] = value

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        **{code: pickle._Unpickler.dispatch[code] for code in b"".join(_INSTRUCTIONS)},  # noqa: SLF001
        pickle.FRAME[0]: load_frame,
        pickle.MARK[0]: load_mark,
        pickle.MEMOIZE[0]: load_memoize,
        pickle.BINPUT[0]: load_binput,
        pickle.LONG_BINPUT[0]: load_long_binput,
        pickle.REDUCE[0]: load_call,
        pickle.NEWOBJ[0]: load_call,
        pickle.BUILD[0]: load_build,
        pickle.SETITEM[0]: load_setitem,
        pickle.SETITEMS[0]: load_setitems,
    }
