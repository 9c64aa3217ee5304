"""Runtime bundle: the part of Torchdeck that runs on nodes, as a folder named by its content."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from torchdeck.agent.link.abandoned import remove_abandoned
from torchdeck.agent.link.loader import PACKAGE, LoaderError, content_hash, folder_hash, write
from torchdeck.contract.layout import Home
from torchdeck.contract.lock_file import locked
from torchdeck.contract.package import FOLDER
from torchdeck.contract.refusal import Refusal

__all__ = ["PACKAGE", "BundleError", "bundle_content", "content_hash", "ship"]

FILES = ("__init__.py", "environment.py")
"""Single files of the runtime bundle, relative to the package."""
PACKAGES = (
    "contract",
    "agent",
    "telemetry",
    "trainers",
    "data",
    "distributed",
    "recipes",
    "tracing",
    "compat",
)
"""Packages of the runtime bundle, with all their files. Lists in pyproject.toml are tested against this one.
"""


class BundleError(Refusal):
    """The runtime bundle cannot be created; the message says why."""


def bundle_content(package: Path) -> dict[str, bytes]:
    """Return every file of the runtime bundle, by its path relative to `package`, in a fixed order.

    Raises:
        BundleError: a file cannot be read.
    """
    try:
        return {name: (package / name).read_bytes() for name in sorted(_names(package))}
    except OSError as error:
        raise BundleError(
            f"Torchdeck's own {error.filename} cannot be read", error.strerror, "install Torchdeck again"
        ) from error


def ship(home: Path, package: Path | None = None) -> Path:
    """Return the folder to put first on the module path of nodes; created once, checked byte for byte every
    time.

    Args:
        home: TORCHDECK_HOME.
        package: folder of the torchdeck package; default: the running one's.

    Raises:
        BundleError: it cannot be read or written.
    """
    content = bundle_content(package or Path(FOLDER))
    name = content_hash(content)
    target = Home(home).shipped / name
    if folder_hash(target) == name:
        return target
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # a second launch at the same moment must not take the first one's new folder for a damaged one
        with locked(Home(home).shipped.with_suffix(".lock")):
            if folder_hash(target) != name:
                remove_abandoned(target.parent, time.time())
                write(target, content, name)
    except LoaderError as error:
        raise BundleError(str(error)) from error
    except OSError as error:
        raise BundleError(
            f"{target} cannot be written", error.strerror, "make room, or set another TORCHDECK_HOME"
        ) from error
    return target


def _names(package: Path) -> Iterator[str]:
    yield from FILES
    for part in PACKAGES:
        for folder, folders, files in os.walk(package / part):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            inside = Path(folder).relative_to(package).as_posix()
            for file in files:
                name = f"{inside}/{file}"
                if file.endswith((".py", ".sh")) or folder.endswith(".dist-info"):
                    yield name
