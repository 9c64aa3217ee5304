"""Folders whose code the user has said may run. A run file's recipe is code, and comes from anywhere."""

from __future__ import annotations

from pathlib import Path

from torchdeck.rundir.atomic import read_json, write_json
from torchdeck.runs.home import torchdeck_home

FILE_NAME = "trusted.json"
_VERSION = 1


class TrustError(Exception):
    """The list of trusted folders cannot be used; the message says why and what would help."""


def is_trusted(folder: Path, home: Path | None = None) -> bool:
    """Whether the user trusts `folder`, or one that it lies in; symbolic links are followed first.

    Args:
        folder: where the code lies.
        home: TORCHDECK_HOME, if not the usual one.

    Raises:
        TrustError: the list was written by a newer Torchdeck.
    """
    real = folder.resolve()
    known = set(trusted_folders(torchdeck_home() if home is None else home))
    return any(place in known for place in (real, *real.parents))


def trust(folder: Path, home: Path | None = None) -> None:
    """Add `folder` and all that is and will be below it, for good.

    Raises:
        TrustError: there is no such folder, or the list cannot be written.
    """
    home = torchdeck_home() if home is None else home
    real = folder.resolve()
    if not real.is_dir():
        raise TrustError(f"{folder} is not a folder: name the folder that the code lies in")
    if is_trusted(real, home):
        return
    folders = sorted(str(known) for known in {*trusted_folders(home), real})
    try:
        write_json(home / FILE_NAME, {"v": _VERSION, "folders": folders})
    except OSError as error:
        raise TrustError(
            f"{home / FILE_NAME} cannot be written ({error.strerror}): make it writable"
        ) from error


def trusted_folders(home: Path) -> list[Path]:
    """The folders that were trusted; none where the list is missing or damaged, which errs on the safe side.

    Raises:
        TrustError: the list was written by a newer Torchdeck.
    """
    value = read_json(home / FILE_NAME)
    if not isinstance(value, dict) or not isinstance(value.get("folders"), list):
        return []
    version = value.get("v")
    if isinstance(version, int) and version > _VERSION:
        raise TrustError(f"{home / FILE_NAME} was written by a newer Torchdeck: update Torchdeck")
    if version != _VERSION:
        return []
    return [Path(entry) for entry in value["folders"] if isinstance(entry, str) and entry.startswith("/")]
