"""Makes an environment with uv. One process makes it, others wait; one that is not complete is never used."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from torchdeck.agent.environments.environment_files import LOCK, Source, platform_name
from torchdeck.agent.environments.made import (
    all_made,
    lock_path,
    marker_path,
    packages_of,
    read_made,
    write_marker,
)
from torchdeck.agent.environments.making import Making
from torchdeck.agent.processes.child_process import ChildProcess
from torchdeck.contract.inventory import UvFacts
from torchdeck.contract.layout import Home
from torchdeck.contract.lock_file import try_lock

PLAN_LIMIT = 600.0
"""Seconds that uv may take to tell which packages are missing."""
TICK = 0.2
SAID_LINES = 12
"""Last lines of uv's output in an error."""
GET_UV = "install uv there (`python3 -m pip install --user uv`), or set run.interpreter"
_USUAL = (".local/bin", ".cargo/bin")
"""Folders below the home folder in which uv's installers put it; a login over SSH may lack them in PATH."""
_INSTALLS = re.compile(r"^Would install (\d+) package", re.MULTILINE)
_DOWNLOADS = re.compile(r"^Would download (\d+) package", re.MULTILINE)


class EnvironmentNotMadeError(Exception):
    """The environment could not be made; the message says why."""


class Environment(NamedTuple):
    """A complete environment in use."""

    folder: str
    key: str
    source: str
    """File that lists its packages."""
    lock: int
    """Descriptor of its lock: nothing removes the environment while a copy of the descriptor is open."""


def find_uv() -> str | None:
    """Return the path of uv, on PATH or where its installers put it; None without it."""
    usual = os.pathsep.join(str(Path.home() / folder) for folder in _USUAL)
    return shutil.which("uv") or shutil.which("uv", path=usual)


def uv_facts(home: Home) -> UvFacts:
    """Return where uv is on this node, and which environments `home` has. No process is started."""
    made = {each.key: (each.torch, each.numpy) for each in all_made(home)}
    return UvFacts(find_uv(), platform_name(), made)


def use_environment(
    home: Home, source: Source, key: str, python: str, environ: Mapping[str, str], making: Making
) -> Environment:
    """Return the environment `key`, which is made first if it is not there.

    Args:
        home: Torchdeck's home on this node.
        source: the files it is made from.
        key: `source.key` for the Python.
        python: the Python that it is made for.
        environ: variables of uv; they may name package indexes.
        making: its progress.

    Raises:
        EnvironmentNotMadeError: it cannot be made, or was not within the time limit.
        OSError: the disk does not allow it.
    """
    home.environments.mkdir(mode=0o700, parents=True, exist_ok=True)
    until = time.monotonic() + making.limit
    try:
        while True:
            used = _used(home, key)
            if used is not None:
                return used
            lock = try_lock(lock_path(home, key))
            if lock is None:
                making.text = "waiting for another run that installs the same environment"
                _pause(making, until)
                continue
            try:
                if read_made(home, key) is None:  # else another process has made it meanwhile
                    _make(home, source, key, python, environ, making, until, lock)
            finally:
                os.close(lock)
    finally:
        making.text = ""


def _used(home: Home, key: str) -> Environment | None:
    """Take the lock of a complete environment for reading; None if there is none, or it is being removed."""
    made = read_made(home, key)
    if made is None:
        return None
    descriptor = os.open(lock_path(home, key), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    if read_made(home, key) is None:  # removed in between
        os.close(descriptor)
        return None
    with contextlib.suppress(OSError):
        os.utime(marker_path(home, key))  # its last use
    return Environment(str(home.environments / key), key, made.source, descriptor)


def _pause(making: Making, until: float) -> None:
    if making.cancelled:
        raise EnvironmentNotMadeError("stopped while it waited for an environment")
    if time.monotonic() > until:
        raise EnvironmentNotMadeError(f"{making.text} has taken more than {making.limit / 60:.0f} min")
    time.sleep(TICK)


def _make(
    home: Home,
    source: Source,
    key: str,
    python: str,
    environ: Mapping[str, str],
    making: Making,
    until: float,
    lock: int,
) -> None:
    folder = home.environments / key
    if folder.exists():  # of a process that was killed while it made it
        shutil.rmtree(folder)
    uv = find_uv()
    if uv is None:
        raise EnvironmentNotMadeError(f'run.environment is "uv", and there is no uv on this node: {GET_UV}')
    variables = {**_variables(environ), "UV_PROJECT_ENVIRONMENT": str(folder)}
    build = _Build(uv, source, folder, variables, making, lock)
    build.run(python, until)
    _write_out(folder)  # a power cut must not leave a marker beside files that are not written yet
    write_marker(home, key, source.name)


def _write_out(folder: Path) -> None:
    """Write what a folder's file system still holds in memory; other disks may be slow, or not answer."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(folder))
    finally:
        os.close(descriptor)


def _variables(environ: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    # text without bars and colors; no other Python than the node's own
    return {**kept, "UV_NO_PROGRESS": "1", "NO_COLOR": "1", "UV_PYTHON_DOWNLOADS": "never"}


class _Build:
    """uv's commands that fill one folder."""

    def __init__(
        self,
        uv: str,
        source: Source,
        folder: Path,
        environ: Mapping[str, str],
        making: Making,
        lock: int,
    ) -> None:
        self._uv, self._source, self._folder = uv, source, folder
        self._environ, self._making, self._lock = environ, making, lock
        self._total = self._to_download = 0
        self._fetched = folder  # replaced once uv has named its cache
        self._fetched_before = 0

    def run(self, python: str, until: float) -> None:
        """Make it. Raises EnvironmentNotMadeError."""
        name = self._source.name
        install: tuple[str, ...]
        if name == LOCK:
            # the project itself is not installed: its folder is another for each run
            install = ("sync", "--frozen", "--no-install-project", "--python", python)
        else:
            self._call(("venv", "--python", python, str(self._folder)), until)
            install = ("pip", "install", "--python", str(self._folder / "bin" / "python"), "-r", name)
        self._making.text = f"reading {name}"
        with contextlib.suppress(
            EnvironmentNotMadeError
        ):  # an older uv; what is wrong is reported by the next one
            self._count(self._call((*install, "--dry-run"), min(until, time.monotonic() + PLAN_LIMIT)))
        self._call(install, until, progress=True)

    def _count(self, said: str) -> None:
        installs, downloads = _INSTALLS.search(said), _DOWNLOADS.search(said)
        self._total = int(installs[1]) if installs else 0
        self._to_download = int(downloads[1]) if downloads else 0
        cache = self._call(("cache", "dir"), time.monotonic() + PLAN_LIMIT).strip()
        # uv unpacks each package that it has downloaded into a folder of its own
        self._fetched = Path(cache) / "archive-v0"
        self._fetched_before = _entries(self._fetched)

    def _call(self, arguments: tuple[str, ...], until: float, *, progress: bool = False) -> str:
        """Run uv and return what it says. Raises EnvironmentNotMadeError if it fails or takes too long."""
        with tempfile.TemporaryFile() as output:
            process = ChildProcess(
                [self._uv, *arguments],
                stdout=output,
                stderr=output,
                env=self._environ,
                cwd=str(self._source.folder),
                # if this process is killed, no other one builds here before uv has ended
                pass_fds=(self._lock,),
            )
            while process.exit_code(TICK) is None:
                if progress:
                    self._making.text = self._progress()
                if self._making.cancelled or time.monotonic() > until:
                    break
            process.end()  # and its build processes
            code = process.exit_code()
            output.seek(0)
            text = output.read().decode("utf-8", "replace")
        if self._making.cancelled:
            raise EnvironmentNotMadeError("stopped while uv installed the environment")
        if code != 0:
            why = f"exit code {code}" if time.monotonic() <= until else "it took too long and was terminated"
            last = "\n".join(text.strip().splitlines()[-SAID_LINES:])
            raise EnvironmentNotMadeError(
                f"uv could not make the environment from {self._source.name} ({why}; `uv {arguments[0]}`): "
                f"{last or 'it printed nothing'}"
            )
        return text

    def _progress(self) -> str:
        """Return `installing 14 of 61 packages`, as far as uv shows it."""
        if not self._total:
            return f"installing packages from {self._source.name}"
        installed = min(len(packages_of(self._folder)), self._total)
        if installed or not self._to_download:
            return f"installing {installed} of {self._total} packages"
        fetched = min(max(0, _entries(self._fetched) - self._fetched_before), self._to_download)
        return f"downloading {fetched} of {self._to_download} packages"


def _entries(folder: Path) -> int:
    try:
        return sum(1 for _ in folder.iterdir())
    except OSError:
        return 0
