"""The files of yours that a run executes a copy of."""

from __future__ import annotations

import os
from collections.abc import Iterator

from torchdeck.agent.snapshots.manifest import EXECUTABLE, LINK
from torchdeck.plan.launch_plan import CodeTree
from torchdeck.quantities import size
from torchdeck.rundir.file_names import name_of


def file_lines(code: CodeTree) -> Iterator[str]:
    """Every file with its size, and how many there are; names as `text_of` has them, in one line each."""
    yield code_line(code)
    for name, content in code.files.items():
        shown = name if name.isprintable() else repr(name)
        yield f"{_size(code, name, content):>10}  {shown}{_kind(content)}"


def code_line(code: CodeTree) -> str:
    """What happens to them, in one sentence."""
    count = f"{len(code.files):,} file{'' if len(code.files) == 1 else 's'} of yours"
    if code.folder:
        return f"each run executes a copy of its own of {code.folder}: {count}, {size(code.size)}"
    if code.files:
        return f"a run executes your files where they lie; the fingerprint covers {count}"
    return "a run executes nothing of yours"


def _size(code: CodeTree, name: str, content: str) -> str:
    if content.startswith(LINK) or not code.folder:
        return ""
    try:
        return size(os.stat(os.path.join(code.folder, name_of(name))).st_size)  # noqa: PTH116, PTH118
    except OSError:
        return "gone"


def _kind(content: str) -> str:
    if content.startswith(LINK):
        return f" {content}"
    return " (executable)" if content.endswith(EXECUTABLE) else ""
