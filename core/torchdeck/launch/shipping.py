"""The part of Torchdeck that runs on nodes, as a folder named by its content."""

from __future__ import annotations

import hashlib
import os
import py_compile
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import torchdeck
from torchdeck.launch.file_lock import locked

PACKAGE = "torchdeck"
FILES = (
    "__init__.py",
    "environment.py",
    "plan/__init__.py",
    "plan/elastic.py",
    "plan/fingerprint.py",
    "plan/launch_plan.py",
    "plan/model_profile.py",
    "plan/policy.py",
    "plan/prediction.py",
    "plan/smaller_plan.py",
    "plan/slots.py",
)
"""Single files that are shipped, relative to the package."""
ROOMS = ("rundir", "agent", "telemetry", "data", "distributed", "recipes", "tracing")
"""Folders that are shipped with all they hold."""
LEFT_OUT = ("telemetry/reader", "telemetry/export")
"""Beginnings of names in them that only the desktop side uses."""
HASH_LENGTH = 16


class ShippingError(Exception):
    """The shipped folder cannot be made; the message says why."""


def shipped_content(package: Path) -> dict[str, bytes]:
    """Every file that goes to nodes, by its path relative to `package`, in a fixed order.

    Raises:
        ShippingError: one cannot be read.
    """
    try:
        return {name: (package / name).read_bytes() for name in sorted(_names(package))}
    except OSError as error:
        raise ShippingError(f"Torchdeck's own {error.filename} cannot be read: {error.strerror}") from error


def content_hash(content: Mapping[str, bytes]) -> str:
    """The name of the folder that holds `content`: the beginning of a SHA-256 over names and bytes."""
    digest = hashlib.sha256()
    for name, data in content.items():
        digest.update(f"{name}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()[:HASH_LENGTH]


def ship(home: Path, package: Path | None = None) -> Path:
    """The folder to put first on the module path of nodes; made once, checked byte for byte every time.

    Args:
        home: TORCHDECK_HOME.
        package: folder of the torchdeck package; the running one's by default.

    Raises:
        ShippingError: it cannot be read or written.
    """
    content = shipped_content(package or Path(torchdeck.__file__).parent)
    target = home / "shipped" / content_hash(content)
    if _is_whole(target, content):
        return target
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # a second launch in the same moment must not take the first one's new folder for a damaged one
        with locked(home / "shipped.lock"):
            if not _is_whole(target, content):
                _make(target, content)
    except OSError as error:
        raise ShippingError(
            f"{target} cannot be written ({error.strerror}): make room, or set another TORCHDECK_HOME"
        ) from error
    return target


def _names(package: Path) -> Iterator[str]:
    yield from FILES
    for room in ROOMS:
        for folder, folders, files in os.walk(package / room):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            inside = Path(folder).relative_to(package).as_posix()
            for file in files:
                name = f"{inside}/{file}"
                if file.endswith((".py", ".sh")) and not name.startswith(LEFT_OUT):
                    yield name


def _is_whole(target: Path, content: Mapping[str, bytes]) -> bool:
    try:
        return all((target / PACKAGE / name).read_bytes() == data for name, data in content.items())
    except OSError:
        return False


def _make(target: Path, content: Mapping[str, bytes]) -> None:
    temporary = Path(tempfile.mkdtemp(prefix=".making-", dir=target.parent))
    try:
        for name, data in content.items():
            path = temporary / PACKAGE / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        _compile(temporary, content)
        _move(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    if not _is_whole(target, content):
        raise OSError(0, "what was written is not what is there", str(target))


def _compile(folder: Path, content: Mapping[str, bytes]) -> None:
    """Byte code beside the sources: the agent runs with -B, and would compile itself at every start."""
    for name in content:
        if name.endswith(".py"):
            py_compile.compile(
                str(folder / PACKAGE / name),
                doraise=False,
                quiet=2,
                dfile=f"{PACKAGE}/{name}",
                # checked by hash, since the folder's name promises its content and not its times
                invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH,
            )


def _move(temporary: Path, target: Path) -> None:
    """Put the folder in its place; one that is there is damaged and gives way."""
    if target.exists():
        damaged = Path(tempfile.mkdtemp(prefix=".damaged-", dir=target.parent))
        target.rename(damaged / target.name)
        shutil.rmtree(damaged, ignore_errors=True)
    temporary.rename(target)
