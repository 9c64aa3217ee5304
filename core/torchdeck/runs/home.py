"""TORCHDECK_HOME: the one folder that runs, leases, shipped code and trust lie in."""

from __future__ import annotations

import os
import stat
from pathlib import Path

HOME_VARIABLE = "TORCHDECK_HOME"


class HomeError(Exception):
    """The folder cannot be used; the message says why and what would help."""


def torchdeck_home(named: Path | None = None) -> Path:
    """The folder everything of Torchdeck's lies in, made with mode 0700 when it is not there.

    Args:
        named: use this one, not what the environment says.

    Raises:
        HomeError: it cannot be made, is not a folder, belongs to somebody else, or others may write in it.
    """
    home = usual_home() if named is None else named.expanduser().absolute()
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        raise HomeError(f"{home} is not a folder: set {HOME_VARIABLE} to a folder of your own") from None
    except OSError as error:
        raise HomeError(
            f"{home} cannot be made ({error.strerror}): set {HOME_VARIABLE} to a folder you may write in"
        ) from error
    check_private(home)
    return home


def check_private(folder: Path) -> None:
    """Refuse a folder in which somebody else could place files that this program would trust.

    Raises:
        HomeError: it belongs to somebody else, or its mode lets others write.
    """
    try:
        found = folder.stat()
    except OSError as error:
        raise HomeError(f"{folder} cannot be looked at: {error.strerror}") from error
    if found.st_uid != os.geteuid():
        raise HomeError(
            f"{folder} belongs to user {found.st_uid}: set {HOME_VARIABLE} to a folder of your own"
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise HomeError(f"others may write in {folder}: `chmod go-w {folder}` first")


def runs_folder(home: Path) -> Path:
    """Where run directories lie; it may not be there yet."""
    return home / "runs"


def usual_home() -> Path:
    """Where it is if nobody says otherwise, be it there or not."""
    variable = os.environ.get(HOME_VARIABLE)
    if variable:
        return Path(variable).expanduser().absolute()
    from platformdirs import user_data_path

    return user_data_path("torchdeck", appauthor=False)
