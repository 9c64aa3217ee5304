"""A file system of its own in a folder, for disks that are full or cannot be written to."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    """A tmpfs at `folder` until the block ends, with mount(8) options; for tests of the tier `root`."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True, timeout=30)
    try:
        yield
    finally:
        # lazily: the last process of a run may have it as its working directory for a moment yet
        subprocess.run(["umount", "--lazy", str(folder)], check=True, timeout=30)
