"""What makers of shipped folders leave behind who are killed in the act."""

import os
import time
from pathlib import Path

from torchdeck.agent.link.abandoned import ABANDONED, remove_abandoned

NOW = time.time()


def left_behind(shipped: Path, name: str, *, seconds: float) -> Path:
    """A folder with a file, begun so long ago."""
    folder = shipped / name
    (folder / "torchdeck").mkdir(parents=True)
    (folder / "torchdeck" / "__init__.py").touch()
    os.utime(folder, (NOW - seconds, NOW - seconds))
    return folder


def test_only_what_nobody_makes_any_more_is_removed(tmp_path: Path) -> None:
    """By age; shipped folders are never abandoned, and a link is not followed."""
    old = [left_behind(tmp_path, name, seconds=ABANDONED + 60) for name in (".making-a", ".damaged-b")]
    kept = [
        left_behind(tmp_path, ".making-c", seconds=ABANDONED - 60),
        left_behind(tmp_path, "0123456789abcdef", seconds=ABANDONED + 60),
    ]
    link = tmp_path / ".making-d"
    link.symlink_to(kept[1])
    os.utime(link, (0, 0), follow_symlinks=False)
    remove_abandoned(tmp_path, NOW)
    assert not any(folder.exists() for folder in old)
    assert all((folder / "torchdeck" / "__init__.py").exists() for folder in kept)


def test_a_home_in_which_nothing_was_shipped_is_nothing_to_say(tmp_path: Path) -> None:
    remove_abandoned(tmp_path / "shipped", NOW)
    assert list(tmp_path.iterdir()) == []
