"""The data a batch plan was made from, in a file next to it that is not part of the plan itself.

Sizes and times of files show quickly that nothing has changed; if they differ, the content decides.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from torchdeck.contract.atomic import write_bytes
from torchdeck.data.batch_plan.columns import BatchPlanError
from torchdeck.data.batch_plan.files.columns_file import read_document
from torchdeck.data.batch_plan.files.dataset_files import content_fingerprint, files_in
from torchdeck.data.batch_plan.files.length_files import Progress, read_lengths
from torchdeck.data.batch_plan.lengths import lengths_fingerprint

Reading = Literal["dataset", "lengths"]
"""How it was read: by `measure_dataset`, or by `read_lengths`."""

SOURCE_FILE = "source.json"
FORMAT = "torchdeck-batch-plan-source"
VERSION = 1
TIME_LIMIT = 30.0
"""Time limit in seconds for checking whether data has changed: an external plan may name any folder."""


class _TooLongError(BatchPlanError):
    """The check exceeded the time limit."""


@dataclass(frozen=True)
class DataSource:
    """A file or folder that a batch plan was made from, in its state at that time."""

    path: str
    """Absolute path."""
    reading: Reading
    listing: str
    """SHA-256 over names, sizes and times of its files; see `listing_of`."""
    fingerprint: str
    """Fingerprint of its content, as it was read."""

    @property
    def build(self) -> str:
        """Return the command that makes a plan from it, without its other options."""
        return f"torchdeck batchplan build --{self.reading} {shlex.quote(self.path)}"


def listing_of(path: str | os.PathLike[str], *, progress: Progress | None = None) -> str:
    """Return the SHA-256 in hexadecimal over name, size and time of each file of the data set `path`; no
    content is read.

    Args:
        path: the file or folder.
        progress: called for every file.

    Raises:
        BatchPlanError: it is neither a file nor a folder of files.
        OSError: it cannot be accessed.
    """
    place = Path(path)
    if not place.is_dir() and not place.is_file():
        raise BatchPlanError(f"{place} is no file and no folder")
    digest = hashlib.sha256()
    names: list[str] = []
    for name in files_in(place) if place.is_dir() else [""]:
        names.append(name)
        if progress is not None:
            progress("files found", len(names), len(names))
    for number, name in enumerate(sorted(names, key=os.fsencode)):
        found = (place / name).stat()
        if progress is not None:
            progress("files looked at", number + 1, len(names))
        digest.update(b"%d %d %s\n" % (found.st_size, found.st_mtime_ns, os.fsencode(name)))
    return digest.hexdigest()


def write_source(source: DataSource, folder: Path) -> None:
    """Write `source` into the folder of a batch plan."""
    value = {"format": FORMAT, "v": VERSION, **asdict(source)}
    write_bytes(folder / SOURCE_FILE, json.dumps(value, indent=1).encode("ascii") + b"\n")


def read_source(folder: Path) -> DataSource | None:
    """Return the data that the batch plan in `folder` was made from; None if unknown.

    Raises:
        BatchPlanError: the file is damaged, or of a newer Torchdeck.
        OSError: it cannot be read.
    """
    path = folder / SOURCE_FILE
    if not path.is_file():
        return None
    value = read_document(path, FORMAT, VERSION, "does not say which data a batch plan was made from")
    fields: dict[str, Any] = {name: value.get(name) for name in DataSource.__dataclass_fields__}
    wrong = next((name for name, item in fields.items() if not isinstance(item, str)), None)
    if wrong is not None or fields["reading"] not in get_args(Reading):
        raise BatchPlanError(f"{path} is damaged: {wrong or 'reading'} is {fields[wrong or 'reading']!r}")
    return DataSource(**fields)


def changed_source(path: str | os.PathLike[str], *, progress: Progress | None = None) -> DataSource | None:
    """Return the data that the batch plan in the folder `path` was made from, if it has changed.

    Also None if that cannot be determined: the plan does not record its data, or the data is not here.
    Content is read only if sizes or times of files differ, for `TIME_LIMIT` at most.

    Raises:
        BatchPlanError: the file that records it is damaged, or there is too much data to compare in that
            time.
        OSError: that file cannot be read.
    """
    source = read_source(Path(path))
    if source is None:
        return None
    place = Path(source.path)
    limit = time.monotonic() + TIME_LIMIT

    def looked(what: str, done: int, total: int) -> None:
        if time.monotonic() > limit:
            raise _TooLongError(
                f"whether {place} is still the data that {path} was made from could not be checked within "
                f"{TIME_LIMIT:g} s: build the plan again with {source.build} …, or remove "
                f"{Path(path) / SOURCE_FILE}, without which nothing is compared"
            )
        if progress is not None and what.endswith("read"):
            progress(what, done, total)

    try:
        if not place.exists() or listing_of(place, progress=looked) == source.listing:
            return None
        same = _fingerprint(place, source.reading, looked) == source.fingerprint
    except _TooLongError:
        raise
    except BatchPlanError:
        return source
    except OSError:
        return None
    return None if same else source


def _fingerprint(path: Path, reading: Reading, progress: Progress) -> str:
    if reading == "lengths":
        return lengths_fingerprint(read_lengths(path, progress=progress))
    return content_fingerprint(path, progress=progress)
