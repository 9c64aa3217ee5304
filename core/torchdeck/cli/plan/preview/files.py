"""User files of which a run executes a copy."""

from __future__ import annotations

import os
from collections.abc import Iterator

from torchdeck.agent.snapshots.manifest import EXECUTABLE, LINK
from torchdeck.contract.file_names import name_of
from torchdeck.contract.plan.launch_plan import CodeTree
from torchdeck.plan.code_paths import IGNORE_FILE
from torchdeck.quantities import size


def file_lines(code: CodeTree) -> Iterator[str]:
    """List every file with its size, their count, and what is left out and why.

    Names as `text_of` has them, one line each.
    """
    yield code_line(code)
    for name, content in code.files.items():
        named = f"  ({IGNORE_FILE} names it)" if name in code.knowingly else ""
        yield f"{_size(code, name, content):>10}  {_shown(name)}{_kind(content)}{named}"
    if code.left_out:
        yield f"left out ({IGNORE_FILE} takes a file along that it names: !NAME):"
    for name, why in code.left_out.items():
        yield f"{'':>10}  {_shown(name)}: {why}"


def _shown(name: str) -> str:
    return name if name.isprintable() else repr(name)


def code_line(code: CodeTree) -> str:
    """Describe what happens to them, in one sentence."""
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
