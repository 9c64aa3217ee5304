"""Starting the link server on a node that has nothing but a Python."""

from __future__ import annotations

import grp
import os
import pwd
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.agents.bundle import lay_bundle
from support.links.linked import NODE, RUN_ID
from support.links.local_stream import LocalStream, python_stream
from support.system.old_python import python310
from support.waiting import wait_until
from torchdeck.agent.link import loader
from torchdeck.agent.link.loader import content_hash, folder_hash, write
from torchdeck.contract.frames import FrameReader
from torchdeck.contract.layout import Home
from torchdeck.launching.remote.bootstrap import PYTHON_ARGUMENTS, Bootstrap, BootstrapError, packed
from torchdeck.trust import writers

pytestmark = pytest.mark.processes

ORDER = {"run_id": RUN_ID, "node": NODE, "token_name": "link-00112233.token", "token": "f" * 32}
LIMIT = 60.0


class Node:
    """A home of a node, and the streams to it."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home of $(the) node"
        self.shipped = lay_bundle(folder / "here")
        self.installed = self.home / "shipped" / self.shipped.name
        self.streams: list[LocalStream] = []

    def begin(self, stream: LocalStream | None = None, home: str = "", **changes: str) -> bytes:
        """The first bytes of a link."""
        self.streams.append(stream or python_stream())
        return Bootstrap(self.streams[-1], self.shipped, home or str(self.home)).begin(
            {**ORDER, **changes}, LIMIT
        )


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    for stream in made.streams:
        stream.kill()


def greeted(node: Node, first: bytes) -> bool:
    """The link server says hello."""
    reader = FrameReader()
    frames = list(reader.feed(first))
    while not frames:
        frames = list(reader.feed(node.streams[-1].read(65536, LIMIT)))
    return frames[0].kind == "hello"


def test_the_shipped_folder_is_laid_down_and_the_link_begins(node: Node) -> None:
    """Byte for byte the run's, with nothing beside it, readable by its owner alone."""
    assert greeted(node, node.begin())
    assert folder_hash(node.installed) == node.shipped.name
    assert [path.name for path in node.installed.parent.iterdir()] == [node.shipped.name]
    assert node.installed.stat().st_mode & 0o077 == 0
    assert list(node.installed.rglob("__pycache__"))


def test_what_is_there_is_used(node: Node) -> None:
    """The second time nothing is written, and nothing but loader and order is sent."""
    greeted(node, node.begin())
    before = {path: path.stat().st_mtime_ns for path in node.installed.rglob("*")}
    sent: list[int] = []

    class Counting(LocalStream):
        def write(self, data: bytes) -> None:
            sent.append(len(data))
            super().write(data)

    assert greeted(node, node.begin(Counting([sys.executable, *PYTHON_ARGUMENTS])))
    assert {path: path.stat().st_mtime_ns for path in node.installed.rglob("*")} == before
    assert len(sent) == 1
    assert sent[0] < 20_000 < len(packed(node.shipped))


@pytest.mark.parametrize("damage", ["changed", "missing", "added"])
def test_a_damaged_folder_gives_way(node: Node, damage: str) -> None:
    """Whoever damaged it: its name promises its content."""
    node.begin()
    agent = node.installed / "torchdeck" / "agent" / "agent.py"
    if damage == "changed":
        agent.write_bytes(agent.read_bytes().replace(b"a", b"b", 1))
    elif damage == "missing":
        agent.unlink()
    else:
        agent.with_name("hidden.py").write_text("boom = 1")
    assert greeted(node, node.begin())
    assert folder_hash(node.installed) == node.shipped.name
    assert [path.name for path in node.installed.parent.iterdir()] == [node.shipped.name]


def test_a_transfer_that_breaks_leaves_nothing(node: Node) -> None:
    """Half an archive is no folder; the next one is."""

    class Breaking(LocalStream):
        def write(self, data: bytes) -> None:
            if len(data) < 50_000:
                super().write(data)
                return
            super().write(data[: len(data) // 2])
            assert self.process.stdin is not None
            self.process.stdin.close()

    with pytest.raises(BootstrapError, match=r"the link ended after \d+ of \d+ bytes"):
        node.begin(Breaking([sys.executable, *PYTHON_ARGUMENTS]))
    assert not node.installed.exists()
    assert not list(node.home.glob("shipped/*"))
    assert greeted(node, node.begin())


def test_what_a_killed_transfer_left_is_removed_by_a_later_link(node: Node) -> None:
    """When it ends, and is nobody's any more for long."""
    left = node.home / "shipped" / ".making-old"
    left.mkdir(mode=0o700, parents=True)
    os.utime(left, (0, 0))
    assert greeted(node, node.begin())
    process = node.streams[-1].process
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(LIMIT) == 0
    assert [path.name for path in node.installed.parent.iterdir()] == [node.shipped.name]


def test_two_at_once_make_one_folder(node: Node) -> None:
    """Two runs that begin in the same moment on a new node."""
    import threading

    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(node.begin())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert len(found) == 3
    assert folder_hash(node.installed) == node.shipped.name
    assert [path.name for path in node.installed.parent.iterdir()] == [node.shipped.name]


def test_what_another_has_just_laid_down_is_not_taken_for_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes after the look and before the move; put aside, it would be gone while the other imports it."""
    content = {"__init__.py": b"one = 1\n"}
    name = content_hash(content)
    folder, other = tmp_path / "shipped" / name, tmp_path / "other" / name
    write(other, content, name)
    others, looked, rename = other.stat().st_ino, loader.folder_hash, Path.rename

    def it_comes() -> None:
        if other.exists():
            rename(other, folder)

    def look(path: Path) -> str:
        found = looked(path)
        it_comes()
        return found

    def move(path: Path, target: Path) -> Path:
        it_comes()
        return rename(path, target)

    monkeypatch.setattr(loader, "folder_hash", look)
    monkeypatch.setattr(Path, "rename", move)
    write(folder, content, name)
    assert folder.stat().st_ino == others
    assert [path.name for path in folder.parent.iterdir()] == [name]


def test_what_a_login_prints_is_passed_over(node: Node) -> None:
    """Banners, prompts and half lines before our own."""
    shell = [
        "sh",
        "-c",
        'printf "Welcome!\\n\\033[1mprompt> "; exec "$@"',
        "sh",
        sys.executable,
        *PYTHON_ARGUMENTS,
    ]
    assert greeted(node, node.begin(LocalStream(shell)))


def test_a_login_without_end_is_given_up(node: Node) -> None:
    """Not read for ever."""
    with pytest.raises(BootstrapError, match=r"prints endlessly: y y"):
        node.begin(LocalStream(["yes"]))


def test_a_python_that_is_not_there_is_said(node: Node) -> None:
    """In the words of the shell."""
    with pytest.raises(BootstrapError, match="no-such-python: not found"):
        node.begin(LocalStream(["sh", "-c", "no-such-python"]))


def test_an_old_python_is_said(node: Node, tmp_path: Path) -> None:
    """A stub says what an older one would: its version is looked at before anything else."""
    site = tmp_path / "old"
    site.write_text(
        f"import sys; sys.version_info = (3, 9, 1); sys.version = '3.9.1 (old)'\n{PYTHON_ARGUMENTS[-1]}"
    )
    with pytest.raises(BootstrapError, match=r"needs Python 3.10 or newer.*3\.9\.1"):
        node.begin(LocalStream([sys.executable, str(site)]))


def test_a_home_that_others_may_write_in_is_refused(node: Node) -> None:
    """Who could write there could have our code replaced."""
    node.home.mkdir()
    node.home.chmod(0o777)
    with pytest.raises(BootstrapError, match="chmod go-w"):
        node.begin()


@pytest.mark.parametrize("name", [folder.name for folder in Home(Path()).private])
def test_a_folder_in_the_home_that_others_may_write_in_is_refused(node: Node, name: str) -> None:
    (node.home / name).mkdir(parents=True)
    (node.home / name).chmod(0o707)
    with pytest.raises(BootstrapError, match=f"others may write in .*/{name}: `chmod go-w"):
        node.begin()


def test_a_home_that_others_may_replace_is_refused(node: Node) -> None:
    """Unless the folder around it is sticky, as /tmp is."""
    node.home.mkdir(mode=0o700)
    node.home.parent.chmod(0o777)
    with pytest.raises(BootstrapError, match=r"all users may write in .* `chmod o-w .* or name another home"):
        node.begin()
    node.home.parent.chmod(0o1777)
    node.begin()


@pytest.mark.parametrize("users", ["0 0 4294967295", "1000 1000 1", "1000 0 1\n0 100000 1", "", "torn"])
def test_the_owners_that_are_trusted_are_those_of_this_side(
    users: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that a node is sent stands alone, and has the rules of `trust.writers` once more."""
    texts = {"/proc/sys/kernel/overflowuid": "65534\n", "/proc/self/uid_map": users}
    monkeypatch.setattr(Path, "read_text", lambda path: texts[str(path)])
    assert loader._owners_above() == writers._owners_above()


@pytest.mark.parametrize("members", [[], ["root"], ["root", "mallory"], ["mallory"]])
@pytest.mark.parametrize("name", ["root", "users", None])
@pytest.mark.parametrize("attributes", [[], ["system.posix_acl_access"], None])
def test_the_groups_that_are_private_are_those_of_this_side(
    members: list[str],
    name: str | None,
    attributes: list[str] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def group(number: int) -> grp.struct_group:
        if name is None:
            raise KeyError(number)
        return grp.struct_group((name, "x", number, members))

    def listed(_path: Path) -> list[str]:
        if attributes is None:
            raise OSError
        return attributes

    user = pwd.struct_passwd(("root", "x", 0, 0, "", "/", "/bin/sh"))
    monkeypatch.setattr(grp, "getgrgid", group)
    monkeypatch.setattr(pwd, "getpwuid", lambda _number: user)
    monkeypatch.setattr(os, "listxattr", listed)
    found = tmp_path.stat()
    is_private = name == "root" and set(members) <= {"root"} and attributes != ["system.posix_acl_access"]
    assert loader._is_private_group(tmp_path, found) is is_private
    assert writers._is_private_group(tmp_path, found) is is_private


@pytest.mark.root
@pytest.mark.parametrize(
    ("owner", "group", "mode", "why"),
    [
        (1234, -1, 0o1755, "others can replace .*/lab belongs to user 1234; name another home"),
        (
            -1,
            1234,
            0o2775,
            "others can replace .*group 1234 may write in .*/lab: `chmod g-w .* or name another",
        ),
        (-1, 1234, 0o1775, ""),
        (-1, -1, 0o775, ""),
    ],
    ids=["owner", "group", "sticky", "private group"],
)
def test_a_home_below_a_folder_of_others_is_refused(
    node: Node, tmp_path: Path, owner: int, group: int, mode: int, why: str
) -> None:
    """By the same rules as here, through a link too, and before the home exists."""
    lab = tmp_path / "lab"
    lab.mkdir()
    os.chown(lab, owner, group)
    lab.chmod(mode)
    (tmp_path / "link").symlink_to(lab / "home")
    for home in (lab / "home", tmp_path / "link"):
        if not why:
            node.begin(home=str(home))
            continue
        with pytest.raises(BootstrapError, match=why):
            node.begin(home=str(home))
        (lab / "home").mkdir(exist_ok=True, mode=0o700)


@pytest.mark.root
def test_a_link_of_another_user_is_refused(node: Node, tmp_path: Path) -> None:
    """Even in a sticky folder, and to a home of one's own: its owner can replace it."""
    node.home.mkdir(mode=0o700)
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "link").symlink_to(node.home)
    node.begin(home=str(shared / "link"))
    os.chown(shared / "link", 1234, -1, follow_symlinks=False)
    with pytest.raises(BootstrapError, match=r"others can replace .*/link: all users may write in .*/shared"):
        node.begin(home=str(shared / "link"))


def test_a_home_that_cannot_be_made_is_said(node: Node, tmp_path: Path) -> None:
    """With the system's reason."""
    (tmp_path / "file").write_text("")
    with pytest.raises(BootstrapError, match="Not a directory"):
        node.begin(home=str(tmp_path / "file" / "home"))


def test_an_order_that_leads_elsewhere_ends_the_link(node: Node) -> None:
    """The node's side checks names, too."""
    node.begin(run_id="../../elsewhere")
    assert node.streams[-1].read(10, LIMIT) == b""
    assert node.streams[-1].process.wait(LIMIT) == 1
    assert "no name of a run" in node.streams[-1].stderr


def test_python_310_serves(node: Node) -> None:
    """The oldest one that nodes may have."""
    old = python310()
    if old is None:
        pytest.skip("there is no Python 3.10 here: neither python3.10 on the PATH nor in pyenv")
    assert greeted(node, node.begin(python_stream(old)))


def test_an_order_that_is_none_is_refused(node: Node) -> None:
    """As of a controller of another version, or another program."""
    node.begin()
    node.streams.append(python_stream())
    bootstrap = Bootstrap(node.streams[-1], node.shipped, str(node.home))
    with pytest.raises(BootstrapError, match="no order"):
        bootstrap.begin("what is this", LIMIT)  # type: ignore[arg-type] # no order
    assert node.streams[-1].process.wait(LIMIT) == 2


def test_the_command_line_says_torchdeck_and_the_run_and_no_more(node: Node) -> None:
    """`ps` shows it to all users: neither source nor what else the run's order says."""
    node.begin()
    process = Path(f"/proc/{node.streams[-1].process.pid}")
    shown = process / "cmdline"
    wait_until(lambda: RUN_ID.encode() in shown.read_bytes(), LIMIT, "the title")
    assert shown.read_bytes().rstrip(b"\0") == f"torchdeck link: {RUN_ID}".encode()
    assert (process / "comm").read_text() == "torchdeck-link\n"
