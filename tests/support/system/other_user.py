"""What a user can reach of another one's, as JSON. It runs as the one, with the other's uid and places."""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

PRIVATE = ("environ", "mem", "maps", "auxv", "fd", "cwd", "root", "exe", "io", "stack")
LISTENS, ACCEPTS = "0A", 0x10000
PATIENCE = 0.5


def files(uid: int, places: list[str]) -> Iterator[str]:
    """Files and folders of `uid` that can be read or written, where `uid` can have put something."""
    for place in places:
        for folder, folders, names in os.walk(place):
            for path in (folder, *(f"{folder}/{name}" for name in names)):
                yield from reachable(uid, path)
            folders[:] = [name for name in folders if can_be_filled(uid, f"{folder}/{name}")]


def can_be_filled(uid: int, folder: str) -> bool:
    """Whether it is `uid`'s, or lets everyone write: /tmp is full of folders that are neither."""
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    return found.st_uid == uid or bool(found.st_mode & 0o002)


def reachable(uid: int, path: str) -> Iterator[str]:
    """How one of them can be reached."""
    try:
        found = os.lstat(path)
    except OSError:
        return
    is_link = (found.st_mode & 0o170000) == 0o120000
    if found.st_uid != uid or is_link:
        return
    for how, mode in (("read", os.R_OK), ("written", os.W_OK)):
        if os.access(path, mode, effective_ids=True):
            yield f"{path} can be {how}"


def processes(uid: int) -> Iterator[str]:
    """What can be read in /proc of the processes of `uid`, and which of them can be signalled."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or owner(entry) != uid:
            continue
        for name in PRIVATE:
            if is_open(entry / name):
                yield f"/proc/PID/{name} of {command(entry)}"
        try:
            os.kill(int(entry.name), 0)
            yield f"{command(entry)} can be signalled"
        except (PermissionError, ProcessLookupError):
            pass


def owner(process: Path) -> int:
    """Its real user: who owns its folder in /proc may be another."""
    try:
        lines = (process / "status").read_text().splitlines()
    except OSError:
        return -1
    return next(int(line.split()[1]) for line in lines if line.startswith("Uid:"))


def command(process: Path) -> str:
    """Its command line, which all users see."""
    return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")[:300]


def is_open(path: Path) -> bool:
    """Whether a file, a folder or a link there can be looked into."""
    try:
        if path.name in ("cwd", "root", "exe"):
            path.readlink()
        elif path.is_dir():
            list(path.iterdir())
        else:
            with path.open("rb") as file:
                file.read(1)
    except OSError:
        return False
    return True


def unix_sockets(uid: int) -> Iterator[str]:
    """Those that listen, by a path or an abstract name, let us in, and are `uid`'s."""
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split(maxsplit=7)
        if len(fields) == 8 and int(fields[3], 16) & ACCEPTS:
            name = f"\0{fields[7][1:]}" if fields[7].startswith("@") else fields[7]
            with socket.socket(socket.AF_UNIX) as asking:
                asking.settimeout(PATIENCE)
                try:
                    asking.connect(name)
                    peer = struct.unpack("3i", asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
                except OSError:
                    continue
                if peer[1] == uid:
                    yield fields[7]


def ports(uid: int) -> Iterator[list[object]]:
    """Address, port, socket and end of a connection, of everything of `uid` that listens for TCP."""
    for name in ("tcp", "tcp6"):
        for line in Path("/proc/net", name).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENS and int(fields[7]) == uid:
                written, port = fields[1].split(":")
                address = readable(written)
                yield [address, int(port, 16), int(fields[9]), met(address, int(port, 16))]


def met(address: str, port: int) -> str:
    """How a connection of ours that says nothing ends: "unanswered", "refused", "closed" or "kept"."""
    try:
        asking = socket.create_connection((address, port), PATIENCE)
    except TimeoutError:
        return "unanswered"
    except OSError:
        return "refused"
    with asking:
        try:
            return f"told {told!r}" if (told := asking.recv(100)) else "closed"
        except ConnectionResetError:
            return "closed"
        except TimeoutError:
            return "kept"


def readable(address: str) -> str:
    """An address as people write it; words of the kernel's are in this machine's order."""
    words = b"".join(struct.pack("=I", int(address[at : at + 8], 16)) for at in range(0, len(address), 8))
    return socket.inet_ntop(socket.AF_INET if len(words) == 4 else socket.AF_INET6, words)


def shared_memory(uid: int) -> Iterator[str]:
    """System V segments of `uid` that others may use."""
    for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[7]) == uid and int(fields[2], 8) & 0o007:
            yield line


def main() -> None:
    """Look at everything."""
    uid, places = int(sys.argv[1]), sys.argv[2:]
    found = {
        "files": list(files(uid, places)),
        "processes": list(processes(uid)),
        "sockets": list(unix_sockets(uid)),
        "ports": list(ports(uid)),
        "memory": list(shared_memory(uid)),
    }
    print(json.dumps(found))


main()
