"""The run directory of an exported job, wherever it is, as a run of this home."""

from __future__ import annotations

import hashlib
import shutil
import time
from pathlib import Path

from torchdeck.contract.atomic import write_bytes
from torchdeck.contract.journal import Event, JournalReader
from torchdeck.contract.layout import Home, RunLayout
from torchdeck.contract.refusal import Refusal
from torchdeck.runs.folders.run_directory import RunDirectoryError, reveal, slug
from torchdeck.runs.jobs.job_state import SCHEDULER
from torchdeck.runs.replay import typed

_LINKED = ("plan.json", "journal.jsonl", "nodes", "attempts", "checkpoints")
"""Parts of the job's directory that are seen through links: deleting the run leaves them alone."""
_RUN_FILE = "# An exported script started this run: its run file stayed where the script was written.\n"


class JobFolderError(Refusal):
    """The folder is not the run directory of an exported job."""

    page = "machines#slurm"

    is_usage = True


def is_job_folder(folder: Path) -> bool:
    """Return whether a folder is the run directory of an exported job."""
    try:
        return _created(folder) is not None
    except (Refusal, OSError):
        return False


def add_job(folder: Path, home: Path) -> RunLayout:
    """Return the run of this home that shows the job with this run directory; made if there is none.

    Args:
        folder: RUN_DIR of the job, on a file system that this machine sees.
        home: TORCHDECK_HOME.

    Raises:
        JobFolderError: it is no such folder.
        RunDirectoryError: the home cannot be written.
        NewerFormatError: a newer Torchdeck wrote the job's script.
    """
    root = folder.expanduser().resolve()
    created = _created(root)
    if created is None:
        raise JobFolderError(
            f"{root} is not the run directory of an exported job",
            "its journal.jsonl does not name one",
            "name RUN_DIR, which the job prints in its first line",
        )
    begun = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(created.time))
    seal = hashlib.sha256(str(root).encode("utf-8", "surrogateescape")).hexdigest()[:6]
    layout = Home(home).run(f"{begun}-{slug(typed.text(created.fields, 'name'))}-{seal}")
    if not layout.root.exists():
        try:
            _link(layout, root)
        except OSError as error:
            raise RunDirectoryError(f"{layout.root} cannot be made", error.strerror or error) from error
    return layout


def _created(root: Path) -> Event | None:
    events = JournalReader(RunLayout(root).journal).read_new()
    made = next((event for event in events if event.name == "created"), None)
    return made if made is not None and made.fields.get("scheduler") == SCHEDULER else None


def _link(layout: RunLayout, root: Path) -> None:
    """Create the directory completely, or not at all."""
    hidden = RunLayout(layout.root.with_name(f".{layout.root.name}"))
    shutil.rmtree(hidden.root, ignore_errors=True)  # of a process that died
    hidden.root.mkdir(mode=0o700, parents=True)
    hidden.control.mkdir(mode=0o700)
    write_bytes(hidden.config, _RUN_FILE.encode(), durable=False, private=True)
    for name in _LINKED:
        (hidden.root / name).symlink_to(root / name)
    reveal(hidden)
