"""Check whether a file or folder can be changed only by its user and root, or by others too."""

from __future__ import annotations

import grp
import os
import pwd
import shlex
import stat
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MOST_ENTRIES = 20_000
"""Maximum names checked below a folder, upper levels first: a tenth of a second for that many modules."""
MOST_LINKS = 40
"""Maximum symbolic links on the way to a file, as in Linux."""
_CODE = (".py", ".pyc", ".so", ".pth")
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_COPY = "copy it to a folder of your own"
_ACL = "system.posix_acl_access"


class Writers(NamedTuple):
    """Reason why others could change something."""

    what: str
    fix: str

    @property
    def is_owner(self) -> bool:
        """Whether another user owns it, so that no change of its mode helps."""
        return self.fix == _COPY

    def __str__(self) -> str:
        return f"{self.what}: {self.fix}"


def other_writers(path: Path) -> Writers | None:
    """Return why others could change the target of `path`; None if only this user and root can.

    The check covers the file or folder itself, all folders above it, and all folders with a symbolic link on
    the way: write access there determines where the path leads.

    Raises:
        OSError: it does not exist, or its links form a cycle.
    """
    for place in (*_link_folders(path), path.resolve(strict=True)):
        if found := _others_at(place, place.stat()) or _others_above(place):
            return found
    return None


def other_writers_of_file(path: Path) -> Writers | None:
    """Same as `other_writers`, for the file only: the folders above it are checked elsewhere."""
    return _others_at(path, path.stat())


def other_writers_below(folder: Path) -> Writers | None:
    """Return why others could change code that Python may import from `folder`; None if only this user and
    root can.

    Links to files are followed, links to folders are not. At most `MOST_ENTRIES` names are checked.
    """
    first: Writers | None = None
    for entry in _importable_below(folder):
        try:
            why = other_writers(Path(entry.path)) if entry.is_symlink() else _others_at_entry(entry)
        except OSError:
            continue  # a missing file or dangling link is not imported either
        if why is None:
            continue
        if entry.is_symlink() or why.is_owner:
            return why
        if first is not None:
            return Writers(
                f"{first.what}, and more in {folder}", f"`chmod -R go-w {shlex.quote(str(folder))}`"
            )
        first = why
    return first


def _importable_below(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Return what Python may import from `folder`, and folders in it, by their file type."""
    waiting = deque([str(folder)])
    seen = 0
    while waiting and seen < MOST_ENTRIES:
        for entry in _entries(waiting.popleft()):
            seen += 1
            is_code = entry.name.endswith(_CODE)
            if not is_code and not entry.name.isidentifier():
                continue  # nothing else can be imported
            try:
                is_folder = entry.is_dir(follow_symlinks=False)
            except OSError:
                continue
            if is_folder:
                waiting.append(entry.path)
            if is_folder or is_code:
                yield entry


def _others_at_entry(entry: os.DirEntry[str]) -> Writers | None:
    found = entry.stat(follow_symlinks=False)
    if found.st_uid in _own_users() and not found.st_mode & _OTHERS:
        return None  # the usual case
    return _others_at(Path(entry.path), found)


def _link_folders(path: Path) -> list[Path]:
    """Return the folders of all symbolic links on the way to `path`."""
    folders: list[Path] = []
    at, rest = Path("/"), deque(path.absolute().parts[1:])
    while rest:
        part = rest.popleft()
        if part == "..":
            at = at.parent
            continue
        if not (at / part).is_symlink():
            at = at / part
            continue
        folders.append(at)
        if len(folders) > MOST_LINKS:
            raise OSError(f"{path} leads through more than {MOST_LINKS} links")
        target = (at / part).readlink()
        if target.is_absolute():
            at = Path("/")
        rest.extendleft(reversed([name for name in target.parts if name != "/"]))
    return folders


def _others_above(place: Path) -> Writers | None:
    """Return why others could replace `place`, which is not a link."""
    below = place.stat()
    owners = _owners_above()
    for folder in place.parents:
        found = folder.stat()
        # with the sticky bit, as on /tmp, only the owners of an entry and of the folder can change the entry
        is_sticky = bool(found.st_mode & stat.S_ISVTX) and below.st_uid in _own_users()
        why = _others_at(folder, found, owners)
        if why is not None and not (is_sticky and found.st_uid in owners):
            return why
        below = found
    return None


def _others_at(path: Path, found: os.stat_result, owners: tuple[int, ...] = ()) -> Writers | None:
    if found.st_uid not in (owners or _own_users()):
        return Writers(f"{path} belongs to {_user_name(found.st_uid)}", _COPY)
    if found.st_mode & stat.S_IWOTH:
        return Writers(f"everyone can write {path}", f"`chmod o-w {shlex.quote(str(path))}`")
    if found.st_mode & stat.S_IWGRP and not _is_private_group(path, found):
        return Writers(
            f"group {_group_name(found.st_gid)} can write {path}", f"`chmod g-w {shlex.quote(str(path))}`"
        )
    return None


def _owners_above() -> tuple[int, ...]:
    """Return the allowed owners of the folders above: this user, root, and the user id that the kernel shows
    for root.

    In a user namespace without root (rootless Apptainer, bubblewrap), files of the outer root appear as owned
    by the overflow user, and no process inside can write them.
    """
    try:
        overflow = int(Path("/proc/sys/kernel/overflowuid").read_text())
        inside = [int(line.split()[0]) for line in Path("/proc/self/uid_map").read_text().splitlines()]
    except (OSError, ValueError, IndexError):
        return _own_users()
    return _own_users() if 0 in inside else (*_own_users(), overflow)


def _own_users() -> tuple[int, int]:
    return (0, os.geteuid())


def _is_private_group(path: Path, found: os.stat_result) -> bool:
    """Return whether the group belongs to a single user, as on systems with a group of the same name per
    user.
    """
    try:
        group = grp.getgrgid(found.st_gid)
        own = {pwd.getpwuid(user).pw_name for user in (found.st_uid, os.geteuid())}
    except KeyError:
        return False
    if group.gr_name not in own or not set(group.gr_mem) <= own:
        return False
    try:  # with an ACL the group bits are the mask of all its entries
        return _ACL not in os.listxattr(path)
    except OSError:
        return True  # file system without ACLs


def _user_name(number: int) -> str:
    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"


def _group_name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:
        return
