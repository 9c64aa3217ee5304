"""The step that a torch checkpoint names in its own dictionary. Its pickle is only read, never executed."""

from __future__ import annotations

import pickletools
import struct
import zipfile
import zlib
from pathlib import Path

from torchdeck.contract.bounded_file import open_regular

LIMIT = 4 << 20
"""Most bytes of a pickle that is read; tensors are in other members of the file."""
MOST_STEPS = 10**18
"""A number from here on is no step."""
NAMES = ("iter_num", "global_step", "global_steps", "iteration", "current_step", "train_step", "step")
"""Keys of the number of steps done, the most certain first: nanoGPT, Lightning, DeepSpeed, Megatron."""
_NUMBERS = frozenset(("BININT", "BININT1", "BININT2", "INT", "LONG1", "LONG"))
_TEXTS = frozenset(("BINUNICODE", "SHORT_BINUNICODE", "UNICODE"))
_PUTS = frozenset(("BINPUT", "LONG_BINPUT", "PUT", "MEMOIZE"))
_GETS = frozenset(("BINGET", "LONG_BINGET", "GET"))
DAMAGED = (
    OSError,
    ValueError,
    EOFError,
    LookupError,
    OverflowError,
    RuntimeError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
"""Errors of `zipfile` and `pickletools` for files that are not whole, or encrypted."""
_CLOSES = frozenset(("APPENDS", "SETITEMS", "ADDITEMS", "TUPLE", "LIST", "DICT", "FROZENSET", "POP_MARK"))
"""Operations that end what a MARK began."""


def step_inside(path: Path) -> int | None:
    """Return the step in a checkpoint that `torch.save` wrote as a dictionary; None if it names none.

    The member `data.pkl` of the zip file is looked through for a known key of the outermost dictionary with
    a whole number as its value (the opcodes are those of `pickletools`).

    Args:
        path: the file. A damaged one, or one of another format, has no step.
    """
    try:
        with open_regular(path) as opened, zipfile.ZipFile(opened) as file:
            members = [each for each in file.infolist() if each.filename.endswith("/data.pkl")]
            # both sizes are what the file says, and memory is reserved for the second
            if len(members) != 1 or max(members[0].file_size, members[0].compress_size) > LIMIT:
                return None
            found = _numbers(file.read(members[0]))
    except DAMAGED:
        return None
    return next((found[name] for name in NAMES if name in found), None)


def _numbers(pickled: bytes) -> dict[str, int]:
    """Return key → number of the outermost dictionary. Raises ValueError if the pickle is damaged."""
    found: dict[str, int] = {}
    memo: dict[int, str] = {}
    """Index → known key: the second time a text is only referred to."""
    depth, memoized, key, text = 0, 0, "", ""
    for operation, argument, _ in pickletools.genops(pickled):
        name = operation.name
        if name in _PUTS:
            memo[memoized if argument is None else argument] = text
            memoized += 1
            continue
        if name in _NUMBERS and key and isinstance(argument, int) and 0 <= argument < MOST_STEPS:
            found.setdefault(key, argument)
        text = memo.get(argument, "") if name in _GETS and isinstance(argument, int) else ""
        if name in _TEXTS and argument in NAMES:
            text = str(argument)
        key = text if depth <= 1 else ""
        if name == "MARK":
            depth += 1
        elif name in _CLOSES:
            depth -= 1
    return found
