"""Run from whose checkpoint another run started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torchdeck.contract.bounded_file import read_bounded
from torchdeck.contract.checkpoints.manifest import CheckpointError, read_manifest
from torchdeck.contract.journal import JournalReader
from torchdeck.contract.layout import RunLayout
from torchdeck.quantities import size
from torchdeck.runs.view import RunView


def name_in(run_id: str) -> str:
    """Return the name that a run's id contains: the part between its time and its random end."""
    return run_id.partition("-")[2].rpartition("-")[0] or run_id


@dataclass(frozen=True)
class Origin:
    """Run whose checkpoint the first attempt restored."""

    run_id: str
    step: int | None
    """Optimizer steps completed in it; None if the journal does not say."""

    @property
    def name(self) -> str:
        """Name of the run as far as its id contains it."""
        return name_in(self.run_id)


def origin_of(view: RunView) -> Origin | None:
    """Return the run a run started from; None if it started from scratch. Reads the manifest of one
    checkpoint.

    A deleted checkpoint is still identified by its path, in the directory of its run.
    """
    first = view.attempts[0] if view.attempts else None
    if first is None or not first.resume:
        return None
    folder = Path(first.resume)
    try:
        run_id = read_manifest(folder).run_id
    except CheckpointError:
        layout = RunLayout.of_checkpoint(folder)
        run_id = layout.root.name if layout is not None else ""
    return Origin(run_id, first.resume_step) if run_id not in ("", view.id) else None


_LONGEST = 500
"""Maximum number of characters of a reason that are shown."""


def code_sentence(plan: object) -> str:
    """Return a sentence that a run executes its own copy, or why it does not; empty if the plan has no
    information.

    Args:
        plan: content of plan.json, of any type.
    """
    code = plan.get("code") if isinstance(plan, Mapping) else None
    if not isinstance(code, Mapping) or not isinstance(code.get("files"), Mapping) or not code["files"]:
        return ""
    folder, why, length = code.get("folder"), code.get("uncopied"), code.get("size")
    count = f"{len(code['files']):,} file{'s' * (len(code['files']) != 1)}"
    if isinstance(folder, str) and folder:
        held = f", {size(length)}" if isinstance(length, int) and 0 <= length < 2**63 else ""
        left = code.get("left_out")
        out = f"; {len(left):,} left out" if isinstance(left, Mapping) and left else ""
        return f"uses a copy of {folder}: {count}{held}{out}"
    reason = f": {why[:_LONGEST]}" if isinstance(why, str) and why else ""
    return f"no copy of the code was made; files are used in place{reason}"


# Settings with which a run was started, from its directory: its run file, including overrides.

_LARGEST_RUN_FILE = 4 << 20
"""Bytes; run files have at most 2²⁰ characters."""


@dataclass(frozen=True)
class FrozenRunFile:
    """Frozen run file of a run."""

    text: str
    """Original text, with every `--set` of the start applied."""
    source: str
    """Original file; empty for a command line."""


def frozen_run_file(layout: RunLayout) -> FrozenRunFile:
    """Read the frozen run file.

    Raises:
        OSError: it cannot be read, is too large or no regular file.
        ValueError: it is not TOML in UTF-8 (one that was frozen always is).
    """
    text = read_bounded(layout.config, _LARGEST_RUN_FILE).decode("utf-8").replace("\r\n", "\n")
    created = next(
        (event for event in JournalReader(layout.journal).read_new() if event.name == "created"), None
    )
    if created is None:
        return FrozenRunFile(text, "")
    overrides, source = created.fields.get("overrides"), created.fields.get("source")
    from torchdeck.config.overrides import with_overrides  # imports pydantic

    text = with_overrides(text, [str(item) for item in overrides] if isinstance(overrides, list) else [])
    return FrozenRunFile(text, source if isinstance(source, str) else "")
