"""A file system of its own in a folder, for disks that are full or cannot be written to."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    """A tmpfs at `folder` until the block ends, with mount(8) options; skips where there can be none."""
    if os.geteuid() != 0:
        pytest.skip("mounting a file system needs root")
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False, timeout=30)
    if done.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        # lazily: the last process of a run may have it as its working directory for a moment yet
        subprocess.run(["umount", "--lazy", str(folder)], check=True, timeout=30)
