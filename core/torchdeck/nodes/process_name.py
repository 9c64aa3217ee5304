"""What a process is called for people: an interpreter by what it runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

_PYTHON = re.compile(r"python[0-9.]*")
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")


def process_name(name: str, command: Sequence[str]) -> str:
    """`name`; a Python with its script or module: `python train.py`, `python -m torch.distributed.run`.

    Args:
        name: as the system calls it.
        command: its command line, as far as it may be known.
    """
    if not _PYTHON.fullmatch(name):
        return name
    rest = iter(command[1:])
    for part in rest:
        if part in _WITH_VALUE:
            next(rest, "")
        elif part == "-m":
            return f"{name} -m {next(rest, '')}".rstrip()
        elif part == "-c":
            return f"{name} -c …"
        elif not part.startswith("-"):
            return f"{name} {PurePath(part).name}".rstrip()
    return name
