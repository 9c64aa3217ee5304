"""A file system on a disk of its own, which may be frozen: whoever writes to it waits in the kernel."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SIZE = 16 << 20


def thaw(mounted: Path) -> None:
    """Let all that wait for the disk continue; nothing if it is not frozen."""
    subprocess.run(["fsfreeze", "--unfreeze", str(mounted)], capture_output=True, check=False, timeout=30)


@contextmanager
def disk_to_freeze(folder: Path) -> Iterator[Path]:
    """A new ext4 in `folder`, thawed and unmounted at the end; for tests of the tier `root`."""
    image, mounted = folder / "disk.img", folder / "disk"
    mounted.mkdir(parents=True)
    with image.open("wb") as file:
        file.truncate(SIZE)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True, timeout=30)
    subprocess.run(["mount", "-o", "loop", str(image), str(mounted)], check=True, timeout=30)
    try:
        yield mounted
    finally:
        thaw(mounted)
        subprocess.run(["umount", "--lazy", str(mounted)], check=True, timeout=30)
