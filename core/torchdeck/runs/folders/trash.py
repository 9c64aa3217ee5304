"""The trash of a home: deleted runs that can be restored until it is emptied."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from torchdeck.contract.journal import JournalReader, NewerFormatError
from torchdeck.contract.layout import RUN_ID, TRASH_PREFIX, Home, RunLayout
from torchdeck.runs.folders.deletion import is_aside, run_of
from torchdeck.runs.folders.notes import Note, known_notes
from torchdeck.runs.folders.origin import name_in
from torchdeck.runs.folders.settings import Settings, differing, run_settings


class Trashed(NamedTuple):
    """One run in the trash."""

    folder: Path
    run_id: str
    name: str
    """The name that the user gave it, or its own."""
    deleted: float
    """Unix seconds."""
    differs: str = ""
    """Settings by which it differs from other runs of its program, as the list of runs says them."""

    @property
    def label(self) -> str:
        """The name with what differs: `quickstart · lr 0.001`."""
        return f"{self.name} · {self.differs}" if self.differs else self.name


def in_trash(home: Path) -> tuple[Trashed, ...]:
    """Return the runs in the trash of a home, the last deleted first.

    Runs that have nothing to tell them apart have the time of their creation in `differs`.

    Raises:
        OSError: the folder of the runs cannot be listed.
    """
    runs, notes = Home(home).runs, known_notes(home)
    found = []
    for folder in runs.glob(f"{TRASH_PREFIX}*") if runs.is_dir() else ():
        with suppress(OSError):  # removed or restored meanwhile
            if is_aside(folder):
                run_id = run_of(folder.name)
                name = notes.get(run_id, Note()).name or _created(folder).get("name") or name_in(run_id)
                found.append(Trashed(folder, run_id, str(name), folder.stat().st_ctime))
    told = _told_apart(runs, found)
    return tuple(sorted(told, key=lambda each: (-each.deleted, each.run_id)))


def _told_apart(runs: Path, trashed: Sequence[Trashed]) -> list[Trashed]:
    """Add what differs between runs of one program, deleted or not."""
    named = {name_in(each.run_id) for each in trashed}
    folders = {each.run_id: each.folder for each in trashed}
    for folder in runs.iterdir() if trashed else ():
        if RUN_ID.fullmatch(folder.name) and name_in(folder.name) in named:
            folders[folder.name] = folder
    programs: dict[tuple[object, object], dict[str, Settings]] = defaultdict(dict)
    for run_id, folder in folders.items():
        made = _created(folder)
        words = made.get("overrides")
        overrides = [str(word) for word in words] if isinstance(words, list) else []
        programs[str(made.get("kind")), str(made.get("target"))][run_id] = run_settings(
            RunLayout(folder), overrides
        )
    texts = {run_id: text for each in programs.values() for run_id, text in differing(each).items()}
    known = [each._replace(differs=texts.get(each.run_id, "")) for each in trashed]
    labels = Counter(each.label for each in known)
    return [each if labels[each.label] == 1 else _with_time(each) for each in known]


def _with_time(run: Trashed) -> Trashed:
    """Add the time in its id, to the second."""
    at = run.run_id[:16]
    time = f"{at[:4]}-{at[4:6]}-{at[6:8]} {at[9:11]}:{at[11:13]}:{at[13:15]} UTC"
    return run._replace(differs=", ".join(filter(None, (run.differs, time))))


def _created(folder: Path) -> Mapping[str, Any]:
    """Return the fields of the first event of a run; none if it cannot be read."""
    with suppress(OSError, NewerFormatError):
        for event in JournalReader(RunLayout(folder).journal).read_new():
            if event.name == "created":
                return event.fields
    return {}
