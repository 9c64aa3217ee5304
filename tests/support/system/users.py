"""Other users of this machine, whom only root can play: programs that run as them."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest


class User(NamedTuple):
    """A user id that no one has, and a home folder."""

    uid: int
    home: Path

    @property
    def environ(self) -> dict[str, str]:
        """What a login would set, and where this interpreter's packages are."""
        packages = [path for path in sys.path if Path(path).is_absolute() and _is_packages(path)]
        return {
            "HOME": str(self.home),
            "TMPDIR": str(self.home.parent / "tmp"),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": os.pathsep.join(packages),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LANG": "C.UTF-8",
        }

    def start(self, argv: Sequence[str], *, cwd: Path, **environ: str) -> subprocess.Popen[str]:
        """Start a program as this user, in a session of its own, with the usual umask."""
        return subprocess.Popen(
            argv,
            env={**self.environ, **environ},
            cwd=cwd,
            user=self.uid,
            group=self.uid,
            extra_groups=[],
            umask=0o022,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(
        self, argv: Sequence[str], *, cwd: Path, limit: float = 60, **environ: str
    ) -> tuple[int, str, str]:
        """The same, to its end: exit code, output and errors."""
        with self.start(argv, cwd=cwd, **environ) as process:
            output, errors = process.communicate(timeout=limit)
        return process.returncode, output, errors


def _is_packages(path: str) -> bool:
    """Whether `path` has other packages than the standard library, of which each interpreter has its own.

    Not the folders that tests of the same process have put on the path: those are private to this user.
    """
    return "pytest-of-" not in path and (
        "lib/python" not in path or path.endswith(("site-packages", "dist-packages"))
    )


def new_user(uid: int, around: Path) -> User:
    """A user with a home below `around` that others may look into, as many systems make them."""
    home = around / f"user{uid}"
    home.mkdir()
    os.chown(home, uid, uid)
    home.chmod(0o755)
    return User(uid, home)


@functools.cache
def others_python() -> str:
    """An interpreter that other users can run, with torch; skips the test where none is."""
    user = User(65534, Path("/"))
    for candidate in (sys.executable, shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin")):
        if candidate is None:
            continue
        try:
            if user.run([candidate, "-c", "import torch, pydantic, torchdeck"], cwd=Path("/"))[0] == 0:
                return candidate
        except OSError:
            continue
    pytest.skip("other users can run no Python here that has torch")
