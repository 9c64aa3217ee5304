"""TORCHDECK_HOME: the folder of runs, leases, runtime bundles and trust."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from torchdeck.contract.layout import HOME_VARIABLE, Home
from torchdeck.contract.refusal import Refusal
from torchdeck.trust.writers import other_writers


class HomeError(Refusal):
    """The folder cannot be used; the message says why and how to fix it."""

    page = "index#where-runs-are-stored"


def torchdeck_home(named: Path | None = None) -> Path:
    """Return Torchdeck's home folder, created with mode 0700 if it does not exist.

    Args:
        named: use this folder instead of the environment's.

    Raises:
        HomeError: it cannot be created, is not a folder, belongs to another user, or can be written or
            replaced by others.
    """
    home = usual_home() if named is None else named.expanduser().absolute()
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        raise HomeError(
            f"{home} is not a folder", fix=f"set {HOME_VARIABLE} to a folder of your own"
        ) from None
    except OSError as error:
        raise HomeError(
            f"{home} cannot be made", error.strerror, f"set {HOME_VARIABLE} to a folder you can write to"
        ) from error
    check_private(home)
    return home


def check_private(folder: Path) -> None:
    """Reject a home that another user could replace, or in which they could place files that this program
    would trust.

    Raises:
        HomeError: it or a folder of ours in it belongs to another user, or its mode lets others write; or
            others own or can write a folder above it.
    """
    _check_own(folder)
    for inner in Home(folder).private:
        if inner.is_dir():
            _check_own(inner)
    try:
        found = other_writers(folder)
    except OSError as error:
        raise _not_inspected(folder, error) from error
    if found is not None:
        elsewhere = f"set {HOME_VARIABLE} to a folder elsewhere"
        raise HomeError(
            f"others can replace {folder}",
            found.what,
            elsewhere if found.is_owner else f"{found.fix} first, or {elsewhere}",
        )


def _stat(folder: Path) -> os.stat_result:
    try:
        return folder.stat()
    except OSError as error:
        raise _not_inspected(folder, error) from error


def _not_inspected(folder: Path, error: OSError) -> HomeError:
    return HomeError(
        f"{folder} cannot be inspected",
        error.strerror or error,
        f"set {HOME_VARIABLE} to a folder of your own",
    )


def _check_own(folder: Path) -> None:
    found = _stat(folder)
    if found.st_uid != os.geteuid():
        raise HomeError(
            f"{folder} belongs to user {found.st_uid}", fix=f"set {HOME_VARIABLE} to a folder of your own"
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise HomeError(f"others may write in {folder}", fix=f"`chmod go-w {folder}` first")


def usual_home() -> Path:
    """Return its default path, whether or not it exists."""
    variable = os.environ.get(HOME_VARIABLE)
    if variable:
        return Path(variable).expanduser().absolute()
    from platformdirs import user_data_path

    return user_data_path("torchdeck", appauthor=False)
