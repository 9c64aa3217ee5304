"""Who could change a file or folder."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from torchdeck.trust.writers import other_writers, other_writers_below

OTHER = next((user for user in pwd.getpwall() if user.pw_uid not in (0, os.geteuid())), None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in a folder with a file in it."""
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    for place in (inner, inner.parent):
        place.chmod(0o755)
    (inner / "file.py").touch(mode=0o644)
    return inner


def test_ones_own_are_ones_own(folder: Path) -> None:
    assert other_writers(folder) is None
    assert other_writers(folder / "file.py") is None
    assert other_writers_below(folder) is None


@pytest.mark.parametrize("place", ["..", ".", "file.py"])
def test_everyone_can_write_the_file_or_a_folder_above_it(folder: Path, place: str) -> None:
    changed = Path(os.path.normpath(folder / place))
    changed.chmod(changed.stat().st_mode | stat.S_IWOTH)
    found = other_writers(folder / "file.py")
    assert found == (f"everyone can write {changed}", f"`chmod o-w {changed}`")


def test_in_a_folder_with_the_sticky_bit_others_change_only_their_own(folder: Path) -> None:
    """As in /tmp. The folder itself, in which they can make files, is not one's own by that."""
    folder.parent.chmod(0o1777)
    assert other_writers(folder / "file.py") is None
    assert other_writers(folder.parent) is not None


@pytest.mark.root
def test_what_belongs_to_others_can_be_written_by_them(folder: Path) -> None:
    assert OTHER is not None
    os.chown(folder, OTHER.pw_uid, -1)
    found = other_writers(folder / "file.py")
    assert found is not None
    assert found.what == f"{folder} belongs to user {OTHER.pw_name}"
    folder.parent.chmod(0o1777)
    found = other_writers(folder / "file.py")
    assert found is not None
    assert str(folder) in found.what


@pytest.mark.root
def test_a_group_counts_unless_it_is_ones_own_alone(folder: Path) -> None:
    """Many systems give every user a group of the same name, and files that this group can write."""
    assert OTHER is not None
    file = folder / "file.py"
    file.chmod(0o664)
    assert other_writers(file) is None
    os.chown(file, -1, OTHER.pw_gid)
    found = other_writers(file)
    assert found is not None
    assert found.fix == f"`chmod g-w {file}`"


def test_a_link_is_as_safe_as_the_folder_that_it_lies_in(folder: Path, tmp_path: Path) -> None:
    """Who can change the link decides where the path leads."""
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    (shared / "link").symlink_to(folder)
    path = shared / "link" / "file.py"
    assert other_writers(path) is None
    shared.chmod(0o777)
    found = other_writers(path)
    assert found is not None
    assert found.what == f"everyone can write {shared}"
    again = tmp_path / "again"
    again.symlink_to("shared/../shared/link")
    found = other_writers(again / "file.py")
    assert found is not None
    assert found.what == f"everyone can write {shared}"


def test_links_in_a_circle_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match=r"links|Symlink loop|symbolic links"):
        other_writers(tmp_path / "a")


@pytest.mark.processes
def test_of_a_folder_only_what_can_be_imported_matters(folder: Path, tmp_path: Path) -> None:
    (folder / "data.bin").touch()
    (folder / "data.bin").chmod(0o666)
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "a.py").touch()
    (folder / ".hidden" / "a.py").chmod(0o666)
    (folder / "gone.py").symlink_to("nowhere")
    assert other_writers_below(folder) is None
    package = folder / "package"
    package.mkdir()
    module = package / "module.so"
    module.touch()
    module.chmod(0o666)
    assert other_writers_below(folder) == (f"everyone can write {module}", f"`chmod o-w {module}`")
    package.chmod(0o777)
    found = other_writers_below(folder)
    assert found == (f"everyone can write {package}, and more in {folder}", f"`chmod -R go-w {folder}`")
    subprocess.run(found.fix.strip("`").split(), check=True, timeout=60)
    assert other_writers_below(folder) is None
    elsewhere = tmp_path / "elsewhere.py"
    elsewhere.touch()
    elsewhere.chmod(0o666)
    (folder / "linked.py").symlink_to(elsewhere)
    assert other_writers_below(folder) == (f"everyone can write {elsewhere}", f"`chmod o-w {elsewhere}`")


@pytest.mark.processes
def test_a_user_namespace_without_root_shows_roots_folders_as_the_overflow_users(folder: Path) -> None:
    """As a rootless container does: they are no stranger's there."""
    code = (
        "from pathlib import Path; from torchdeck.trust.writers import other_writers; "
        f"print(other_writers(Path({str(folder)!r})))"
    )
    command = ["unshare", "--user", "--map-user=1234", "--map-group=1234", sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if "unshare" in done.stderr:
        pytest.skip(f"this machine gives no user namespaces: {done.stderr.strip()}")
    assert done.stdout.strip() == "None", done.stderr


def test_a_cure_is_one_command_whatever_the_path_is_called(folder: Path) -> None:
    odd = folder / "a b; c.py"
    odd.touch()
    odd.chmod(0o666)
    found = other_writers(odd)
    assert found is not None
    assert found.fix == f"`chmod o-w '{odd}'`"
