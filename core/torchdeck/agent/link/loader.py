"""The first code that runs on a node: installs the runtime bundle if needed, and becomes the link server.

Sent as text over standard input, so it imports nothing of Torchdeck before it has checked what is there. What
it writes to standard output begins with a line that the controller chose; what a login prints before that is
no part of it.
"""

from __future__ import annotations

import contextlib
import grp
import hashlib
import json
import os
import pwd
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PACKAGE = "torchdeck"
HASH_LENGTH = 16
TRIES = 3
ARCHIVE_LIMIT = 64 * 1024 * 1024
"""Bytes of the shipped part, packed or not; it has some two million."""
PRIVATE = ("runs", "shipped", "code", "leases", "profiles", "environments", "sweeps")
"""Folders of the home in which no other user may write: `contract.layout.Home.private`."""


class LoaderError(Exception):
    """The node cannot be used; the message says why and what would help."""


def main(given: Mapping[str, Any], reading: int, writing: int) -> int:
    """Serve a link; what went wrong before that goes to the controller as a line of JSON.

    Args:
        given: `home` and `hash`.
        reading: descriptor of what the controller sends: the link's order, the archive if it is needed,
            and then frames.
        writing: descriptor to it.
    """
    os.environ.setdefault("TORCHDECK_UMASK", f"{os.umask(0o077):04o}")  # contract.processes.make_private
    try:
        order = _order(reading)
        home = _home(str(given["home"]))
        folder = home / "shipped" / str(given["hash"])
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder_hash(folder) != given["hash"]:
            _say(writing, {"need": given["hash"]})
            install(folder, _archive(reading), str(given["hash"]))
        _say(writing, {"ready": True})
        _entitle(folder, f"torchdeck link: {order.get('run_id')}")
    except (LoaderError, OSError) as error:
        _say(writing, {"failed": str(error)})
        return 2
    _use(folder)
    from torchdeck.agent.link.server import serve
    from torchdeck.agent.link.start_order import LinkOrder

    return serve(LinkOrder.from_json(order, home), reading, writing)


def _use(folder: Path) -> None:
    """Modules of Torchdeck are those of `folder`."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _entitle(folder: Path, title: str) -> None:
    """Show `title` in `ps`, not this source."""
    _use(folder)
    from torchdeck.agent.supervisor_process import set_process_title

    set_process_title(title, "torchdeck-link")


def _order(reading: int) -> Mapping[str, Any]:
    """The link's order. Raises LoaderError: what came is no order."""
    size = read_exactly(reading, 8)
    try:
        value = json.loads(read_exactly(reading, int(size))) if size.isdigit() else None
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise LoaderError("what the controller sent is no order: the link is broken")
    return value


def folder_hash(folder: Path) -> str:
    """The name that `folder`'s content gives it; empty when there is no such folder or it cannot be read."""
    try:
        content = dict(sorted(_content(folder / PACKAGE)))
    except OSError:
        return ""
    return content_hash(content) if content else ""


def content_hash(content: Mapping[str, bytes]) -> str:
    """The name of the folder that holds `content`, sorted by name: the first digits of its SHA-256."""
    digest = hashlib.sha256()
    for name, data in content.items():
        digest.update(f"{name}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()[:HASH_LENGTH]


def install(folder: Path, archive: bytes, wanted: str) -> None:
    """Make `folder` of an archive.

    Raises:
        LoaderError: the archive is not what it should be, or what is written is not what is there.
        OSError: the disk does not take it.
    """
    content = unpack(archive)
    if content_hash(content) != wanted:
        raise LoaderError(
            f"what came is not {wanted}: the link is broken, or both ends differ in their versions"
        )
    write(folder, content, wanted)


def write(folder: Path, content: Mapping[str, bytes], wanted: str) -> None:
    """Make `folder`, in one step, of `content` whose hash is `wanted`; who else makes it makes the same.

    Raises:
        LoaderError: it cannot be put in its place, or what is written is not what is there.
        OSError: the disk does not take it.
    """
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".making-", dir=folder.parent))
    try:
        for name, data in content.items():
            path = made / PACKAGE / name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_bytes(data)
        _compile(made, content)
        _move(made, folder, wanted)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    if folder_hash(folder) != wanted:
        raise LoaderError(f"{folder} differs from what was written: is its disk faulty?")


def unpack(archive: bytes) -> dict[str, bytes]:
    """Name → content. The archive is zlib's, of a line of JSON ([name, size], ...) and the contents after it.

    Raises:
        LoaderError: it is damaged, too long, or has a name that leads elsewhere.
    """
    try:
        engine = zlib.decompressobj()
        data = engine.decompress(archive, ARCHIVE_LIMIT)
        line, _, rest = data.partition(b"\n")
        found, at = {}, 0
        for name, size in json.loads(line):
            parts = str(name).split("/")
            if ".." in parts or "" in parts or not isinstance(size, int) or size < 0:
                raise LoaderError(f"the archive has a file {name!r}")
            found[str(name)] = rest[at : at + size]
            at += size
    except (zlib.error, ValueError, TypeError) as error:
        raise LoaderError(f"the archive is damaged: {error}") from error
    return found


def _home(text: str) -> Path:
    if not text:  # as `agent.probe` and the desktop's side find it
        data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
        text = os.environ.get("TORCHDECK_HOME") or f"{data}/torchdeck"
    home = Path(os.path.abspath(os.path.expanduser(text)))  # noqa: PTH100, PTH111 - links in it stay as they are named
    for folder in (home, *(home / name for name in PRIVATE)):
        with contextlib.suppress(FileNotFoundError):
            found = folder.stat()
            if found.st_uid != os.geteuid():
                raise LoaderError(f"{folder} belongs to user {found.st_uid}: name another home for this node")
            if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise LoaderError(f"others may write in {folder}: `chmod go-w {folder}` first")
    for place in dict.fromkeys((home, home.resolve())):
        _check_above(place)
    return home


def _check_above(home: Path) -> None:
    """Raise LoaderError if another user could replace `home`, by the rules of `trust.writers`."""
    own, owners = (0, os.geteuid()), _owners_above()
    below = os.geteuid()
    with contextlib.suppress(FileNotFoundError):
        below = home.lstat().st_uid  # of the link, if it is one
    for folder in home.parents:
        try:
            found = folder.stat()
        except FileNotFoundError:
            continue  # it will be made, by this user
        # with the sticky bit, as on /tmp, only the owners of an entry and of the folder can change the entry
        is_sticky = bool(found.st_mode & stat.S_ISVTX) and below in own and found.st_uid in owners
        why = _others_at(folder, found, owners)
        if why and not is_sticky:
            raise LoaderError(f"others can replace {home}: {why} name another home for this node")
        below = found.st_uid


def _others_at(folder: Path, found: os.stat_result, owners: tuple[int, ...]) -> str:
    """Return why others could rename what is in `folder`, up to what to do; empty if they cannot."""
    if found.st_uid not in owners:
        return f"{folder} belongs to user {found.st_uid};"
    if found.st_mode & stat.S_IWOTH:
        return f"all users may write in {folder}: `chmod o-w {folder}` first, or"
    if found.st_mode & stat.S_IWGRP and not _is_private_group(folder, found):
        return f"group {found.st_gid} may write in {folder}: `chmod g-w {folder}` first, or"
    return ""


def _owners_above() -> tuple[int, ...]:
    """Return this user and root; without root in the user namespace also the id that stands for it."""
    own = (0, os.geteuid())
    try:
        overflow = int(Path("/proc/sys/kernel/overflowuid").read_text())
        inside = [int(line.split()[0]) for line in Path("/proc/self/uid_map").read_text().splitlines()]
    except (OSError, ValueError, IndexError):
        return own
    return own if 0 in inside else (*own, overflow)


def _is_private_group(folder: Path, found: os.stat_result) -> bool:
    """Return whether only this user or the folder's owner is in the group, as in one named after a user."""
    try:
        group = grp.getgrgid(found.st_gid)
        own = {pwd.getpwuid(user).pw_name for user in (found.st_uid, os.geteuid())}
    except KeyError:
        return False
    if group.gr_name not in own or not set(group.gr_mem) <= own:
        return False
    try:  # with an ACL the group bits are the mask of all its entries
        return "system.posix_acl_access" not in os.listxattr(folder)
    except OSError:
        return True  # file system without ACLs


def _content(package: Path) -> list[tuple[str, bytes]]:
    found = []
    for folder, folders, files in os.walk(package):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for file in files:
            path = Path(folder, file)
            found.append((path.relative_to(package).as_posix(), path.read_bytes()))
    return found


def _archive(reading: int) -> bytes:
    """A number of bytes in eight, big end first, and these."""
    size = int.from_bytes(read_exactly(reading, 8), "big")
    if size > ARCHIVE_LIMIT:
        raise LoaderError(
            f"the archive says it has {size / 2**20:,.1f} MiB; {ARCHIVE_LIMIT / 2**20:g} MiB are the most"
        )
    return read_exactly(reading, size)


def read_exactly(reading: int, count: int) -> bytes:
    """`count` bytes. Raises LoaderError when the stream ends before."""
    found = bytearray()
    while len(found) < count:
        data = os.read(reading, min(1 << 20, count - len(found)))
        if not data:
            raise LoaderError(f"the link ended after {len(found)} of {count} bytes")
        found += data
    return bytes(found)


def _compile(folder: Path, content: Mapping[str, bytes]) -> None:
    """Write byte code next to the sources: a program run with -B would compile itself at every start.

    It is checked by hash, since the folder's name promises its content and not its times.
    """
    import py_compile

    for name in content:
        if name.endswith(".py"):
            py_compile.compile(
                str(folder / PACKAGE / name),
                doraise=False,
                quiet=2,
                dfile=f"{PACKAGE}/{name}",
                invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH,
            )


def _move(made: Path, folder: Path, wanted: str) -> None:
    """Put the folder in its place; one that is there is the same, or damaged and gives way."""
    for _ in range(TRIES):
        # first of all: what another puts there between a look and this would be taken for damaged
        with contextlib.suppress(OSError):
            made.rename(folder)
            return
        if folder_hash(folder) == wanted:
            return
        damaged = Path(tempfile.mkdtemp(prefix=".damaged-", dir=folder.parent))
        with contextlib.suppress(OSError):
            folder.rename(damaged / folder.name)
        shutil.rmtree(damaged, ignore_errors=True)
    raise LoaderError(f"{folder} cannot be installed: another process writes there")


def _say(writing: int, value: Mapping[str, Any]) -> None:
    data = json.dumps(value).encode("ascii") + b"\n"
    while data:
        data = data[os.write(writing, data) :]
