"""Files of a node, read over a conversation with a real Python."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.nodes.probe.opening import probe_session_here
from torchdeck.nodes.probe.probe_session import ProbeError
from torchdeck.nodes.probe.remote_files import PIECE, RemoteFiles, is_inner

pytestmark = pytest.mark.processes


@pytest.fixture
def files() -> Iterator[RemoteFiles]:
    with probe_session_here("n", sys.executable) as probe_session:
        yield RemoteFiles(probe_session, "n")


def test_files_are_listed_and_read_byte_for_byte(files: RemoteFiles, tmp_path: Path) -> None:
    """Odd names among them; links are not followed; what is left out stays out."""
    content = os.urandom(3 * PIECE + 17)
    (tmp_path / "sub dir").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x").write_text("x")
    (tmp_path / "sub dir" / "ü'$(id)\n").write_bytes(content)
    (tmp_path / "link").symlink_to("/etc/passwd")
    (found,) = files.tree(str(tmp_path), ["out"])
    assert (found.name, found.size) == ("sub dir/ü'$(id)\n", len(content))
    path = f"{tmp_path}/{found.name}"
    assert b"".join(files.pieces(path, 0, found.size)) == content
    assert b"".join(files.pieces(path, PIECE - 5, found.size)) == content[PIECE - 5 :]
    assert files.content(path, found.size) == content
    with pytest.raises(ProbeError, match="has more than"):
        files.content(path, 10)
    with pytest.raises(ProbeError, match="No such file"):
        files.digest(f"{tmp_path}/absent")


def test_a_file_that_has_become_shorter_is_said(files: RemoteFiles, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"1234")
    with pytest.raises(ProbeError, match="has changed"):
        list(files.pieces(str(tmp_path / "x"), 0, 10))


@given(st.lists(st.sampled_from(["a", "..", ".", "", "b c", "\0", "~"]), min_size=1, max_size=5))
def test_a_name_leads_nowhere_else(parts: list[str]) -> None:
    """Whatever a node says: what is taken for a name lies below the folder that it is put into."""
    name = "/".join(parts)
    if is_inner(name):
        assert os.path.normpath(f"/base/{name}").startswith("/base/") or set(parts) <= {".", ""}
        assert ".." not in parts
        assert "\0" not in name
