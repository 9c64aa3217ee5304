"""TORCHDECK_HOME: where it is, and when it is refused."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from torchdeck.contract.layout import Home
from torchdeck.runs.home import HomeError, check_private, torchdeck_home


def test_home_is_made_private(torchdeck_home: Path) -> None:
    """The folder that the variable names is made with mode 0700."""
    from torchdeck.runs import home

    found = home.torchdeck_home()
    assert found == torchdeck_home
    assert stat.S_IMODE(found.stat().st_mode) == 0o700


def test_without_the_variable_it_is_the_users_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """platformdirs says where a user's data goes."""
    monkeypatch.delenv("TORCHDECK_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert torchdeck_home() == tmp_path / "data" / "torchdeck"


def test_a_file_is_refused(tmp_path: Path) -> None:
    """A home that is a file is refused with what to do."""
    (tmp_path / "file").touch()
    with pytest.raises(HomeError, match="not a folder: set TORCHDECK_HOME"):
        torchdeck_home(tmp_path / "file")


def test_a_folder_others_may_write_in_is_refused(tmp_path: Path) -> None:
    """Someone else could place code there."""
    tmp_path.chmod(0o770)
    with pytest.raises(HomeError, match="chmod go-w"):
        check_private(tmp_path)


@pytest.mark.parametrize("name", [folder.name for folder in Home(Path()).private])
def test_a_folder_in_it_that_others_may_write_in_is_refused(tmp_path: Path, name: str) -> None:
    """Code and orders lie there."""
    (tmp_path / name).mkdir()
    check_private(tmp_path)
    (tmp_path / name).chmod(0o707)
    with pytest.raises(HomeError, match=f"others may write in .*/{name}: `chmod go-w"):
        check_private(tmp_path)


def test_a_home_that_others_may_replace_is_refused(tmp_path: Path) -> None:
    """All may rename what is in a folder that all may write in, unless it is sticky, as /tmp is."""
    home = tmp_path / "open" / "below" / "home"
    home.mkdir(parents=True, mode=0o700)
    (tmp_path / "open").chmod(0o1777)
    check_private(home)
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(HomeError, match=r"others can replace .*everyone can write .*/open.* `chmod o-w "):
        check_private(home)


@pytest.mark.root
@pytest.mark.parametrize(
    ("owner", "group", "mode", "why"),
    [
        (1234, -1, 0o755, "others can replace .*/lab belongs to user 1234.*: set TORCHDECK_HOME"),
        (1234, -1, 0o1777, "others can replace .*/lab belongs to user 1234.*: set TORCHDECK_HOME"),
        (-1, 1234, 0o2775, "others can replace .*group 1234 can write .*/lab.*`chmod g-w .*, or set "),
        (-1, 1234, 0o1775, ""),
        (-1, 1234, 0o755, ""),
        (-1, -1, 0o775, ""),
    ],
    ids=["owner", "owner of a sticky folder", "group", "sticky", "group that reads", "private group"],
)
def test_a_home_below_a_folder_of_others_is_refused(
    tmp_path: Path, owner: int, group: int, mode: int, why: str
) -> None:
    """The owner of a folder, and a group that can write in it, can rename what is in it."""
    home = tmp_path / "lab" / "below" / "home"
    home.mkdir(parents=True, mode=0o700)
    os.chown(tmp_path / "lab", owner, group)
    (tmp_path / "lab").chmod(mode)
    if not why:
        check_private(home)
        return
    with pytest.raises(HomeError, match=why):
        check_private(home)


def test_a_home_behind_a_link_that_others_can_replace_is_refused(tmp_path: Path) -> None:
    """Who changes the link decides where the home is."""
    home, shared = tmp_path / "home", tmp_path / "shared"
    home.mkdir(mode=0o700)
    shared.mkdir()
    (shared / "link").symlink_to(home)
    check_private(shared / "link")
    shared.chmod(0o777)
    with pytest.raises(HomeError, match=r"everyone can write .*/shared"):
        check_private(shared / "link")


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner must be who runs this."""
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(HomeError, match="belongs to user"):
        check_private(tmp_path)


def test_a_place_that_cannot_be_written_is_refused() -> None:
    """A home that cannot be made is a sentence, for root too."""
    with pytest.raises(HomeError, match="cannot be made"):
        torchdeck_home(Path("/proc/nowhere/torchdeck"))
