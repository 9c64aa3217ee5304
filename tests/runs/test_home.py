"""TORCHDECK_HOME: where it is, and when it is refused."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("name", ["runs", "shipped", "code", "leases"])
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
    with pytest.raises(HomeError, match=r"all users may write in .*/open and replace .* `chmod o-w "):
        check_private(home)


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner must be who runs this."""
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(HomeError, match="belongs to user"):
        check_private(tmp_path)


def test_a_place_that_cannot_be_written_is_refused() -> None:
    """A home that cannot be made is a sentence, for root too."""
    with pytest.raises(HomeError, match="cannot be made"):
        torchdeck_home(Path("/proc/nowhere/torchdeck"))
