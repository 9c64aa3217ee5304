"""Finds the runs that other tools recorded below a folder. Nothing is executed or unpickled."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.bounded_file import UnreadableFileError, open_regular
from torchdeck.contract.refusal import Refusal
from torchdeck.trainers.files.metric_file_kinds import Kind
from torchdeck.trainers.files.metric_file_search import Found, Walk
from torchdeck.trainers.files.mlflow_database import MlflowDatabase, mlflow_runs
from torchdeck.trainers.files.sqlite_file import StoredRun, is_database
from torchdeck.trainers.files.trackio_file import TrackioFile, trackio_runs
from torchdeck.trainers.files.trainer_state import NAME as TRAINER_STATE
from torchdeck.trainers.reading import Reading

HUGGING_FACE, LIGHTNING, TENSORBOARD = "Hugging Face Trainer", "Lightning", "TensorBoard"
WANDB, TRACKIO, MLFLOW = "wandb", "trackio", "MLflow"
MOST_DATABASES = 1000
ENDS = 1 << 20
"""Bytes at both ends of a file by which its content is identified, along with its size."""
_TABLE = "metrics.csv"
_LOGGING = frozenset(("runs", "logs", "logging"))
"""Folders below a Hugging Face output folder with its event files."""
_CHECKPOINT = re.compile(r"checkpoint-\d+")
_NOT_IN_NAMES = re.compile(r"[^\w.=+-]+", re.ASCII)


class OldRun(NamedTuple):
    """A training that another tool recorded."""

    folder: Path
    program: str
    files: tuple[Found, ...]
    stored: StoredRun | None = None
    """The run in the one file, if that is a database of several."""

    def name(self, below: Path) -> str:
        """Return a name made of the folders from `below` on."""
        own = (
            self.folder.relative_to(below).parts
            if self.folder.is_relative_to(below)
            else self.folder.parts[-1:]
        )
        words = [below.name, *own, *([self.stored.name] if self.stored else [])]
        return "-".join(filter(None, (_NOT_IN_NAMES.sub("-", word).strip("-") for word in words)))[:200]

    def readings(self) -> Iterator[tuple[Found, Reading]]:
        """Yield what its files report, each with its file. Damaged ones have no more readings."""
        for file in self.files:
            # event files of one folder are one run, continued
            shown = file._replace(path=file.path.parent) if _is_events(file) else file
            reader = file.kind.open(file.path, 0.0, 0)
            yield from ((shown, reading) for reading in reader.read())
            while reader.more:
                yield from ((shown, reading) for reading in reader.read())

    def first(self) -> Iterator[tuple[Found, Reading]]:
        """Yield the first readings with metrics of each file."""
        for file in self.files:
            reader = file.kind.open(file.path, 0.0, 0)
            found = [reading for reading in reader.read() if reading.values]
            while not found and reader.more:
                found = [reading for reading in reader.read() if reading.values]
            yield from ((file, reading) for reading in found)

    def content(self) -> str:
        """Return a hash of names and content of its files.

        Raises:
            OSError: one cannot be read.
        """
        seal = hashlib.sha256(self.stored.id.encode(errors="replace") if self.stored else b"")
        for path in sorted(file.path for file in self.files):
            seal.update(f"\0{os.path.relpath(path, self.folder)}\0".encode(errors="surrogateescape"))
            try:
                with open_regular(path) as file:
                    length = os.fstat(file.fileno()).st_size
                    seal.update(b"%d\0" % length + file.read(ENDS))
                    file.seek(max(0, length - ENDS))
                    seal.update(file.read(ENDS))
            except UnreadableFileError as error:
                raise OSError(str(error)) from error
        return seal.hexdigest()


def find_old_runs(folder: Path) -> tuple[list[OldRun], list[str]]:
    """Return the runs below `folder`, the oldest first, and why databases are left out."""
    found, _ = Walk([folder]).look(float("inf"))
    states = [file for file in found if file.path.name == TRAINER_STATE]
    grouped: dict[tuple[Path, str], list[Found]] = {}
    for file in states:
        grouped.setdefault((_output_folder(file.path, folder), HUGGING_FACE), []).append(file)
    outputs = {root for root, _ in grouped}
    for file in found:
        own = _group(file, outputs)
        if own is not None:
            grouped.setdefault(own, []).append(file)
    runs = [OldRun(root, program, _ordered(files)) for (root, program), files in grouped.items()]
    databases, problems = _databases(folder)
    return sorted((*runs, *databases), key=lambda run: run.files[0].changed), problems


def _group(file: Found, outputs: Iterable[Path]) -> tuple[Path, str] | None:
    """Return folder and program of the run that a file belongs to; None if it is no run's."""
    path, parent = file.path, file.path.parent
    if path.suffix == ".wandb":
        return parent, WANDB
    if path.name == _TABLE:
        return parent, LIGHTNING
    if not _is_events(file):
        return None
    for root in outputs:
        if path.is_relative_to(root) and (parent == root or path.relative_to(root).parts[0] in _LOGGING):
            return root, HUGGING_FACE
    is_lightning = any((parent / name).exists() for name in ("hparams.yaml", _TABLE))
    return parent, LIGHTNING if is_lightning else TENSORBOARD


def _is_events(file: Found) -> bool:
    return ".tfevents." in file.path.name


def _output_folder(state: Path, below: Path) -> Path:
    """Return the output folder of the trainer that wrote a trainer_state.json."""
    parent = state.parent
    in_checkpoint = _CHECKPOINT.fullmatch(parent.name) and parent != below
    return parent.parent if in_checkpoint else parent


def _ordered(files: Iterable[Found]) -> tuple[Found, ...]:
    """States first, which have every step; each kind in the order in which it was written."""
    return tuple(
        sorted(files, key=lambda file: (file.path.name != TRAINER_STATE, file.changed, str(file.path)))
    )


def _databases(folder: Path) -> tuple[list[OldRun], list[str]]:
    runs: list[OldRun] = []
    problems: list[str] = []
    databases = (path for pattern in ("*.db", "*/*.db") for path in sorted(folder.glob(pattern)))
    for path, _ in zip(filter(is_database, databases), range(MOST_DATABASES), strict=False):
        found, problem = _in_database(path)
        runs += found
        problems += filter(None, [problem])
    return runs, problems


def _in_database(path: Path) -> tuple[list[OldRun], str]:
    """Return the runs in a database, and why it cannot be read, if so."""
    try:
        status = path.stat()
        found = [(TRACKIO, run, _of_trackio(run)) for run in trackio_runs(path)]
        found += [(MLFLOW, run, _of_mlflow(run)) for run in mlflow_runs(path)]
    except (OSError, Refusal) as error:
        return [], str(error)
    return [
        OldRun(path.with_suffix(""), program, (Found(path, kind, status.st_size, status.st_mtime),), run)
        for program, run, kind in found
    ], ""


def _of_trackio(run: StoredRun) -> Kind:
    return Kind("trackio database", lambda path, _since, _begin: TrackioFile(path, run.id))


def _of_mlflow(run: StoredRun) -> Kind:
    return Kind("MLflow database", lambda path, _since, _begin: MlflowDatabase(path, run.id))
