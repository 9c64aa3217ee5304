"""LineIndex: any line of a growing file, at a cost that does not depend on where it is."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchdeck.runs.logs.line_index import LONGEST, PIECE, STRIDE, LineIndex

CONTENT = st.lists(st.sampled_from([b"", b"a", b"step 12", b"x" * 300, b"\xff\r"]), max_size=300).map(
    b"\n".join
)


def lines_of(content: bytes) -> list[bytes]:
    lines = content.split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


@settings(deadline=None)
@given(content=CONTENT, cuts=st.lists(st.integers(0, 4000), max_size=6), first=st.integers(0, 320))
def test_it_reads_what_splitting_gives(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, cuts: list[int], first: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "stdout.log"
    index = LineIndex(path)
    assert index.advance() == 0
    written = 0
    for cut in [*sorted(cuts), len(content)]:
        with path.open("ab") as file:
            file.write(content[written:cut])
        written = max(written, min(cut, len(content)))
        while index.advance(limit=97):
            pass
        assert index.lines == len(lines_of(content[:written]))
    wanted = lines_of(content)
    assert index.read(0, len(wanted) + 5) == wanted
    assert index.read(first, 70) == wanted[first : first + 70]
    assert index.size == len(content)


@settings(max_examples=40, deadline=None)
@given(content=CONTENT, line=st.integers(0, 320))
def test_offsets_and_lines_are_each_others_inverse(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, line: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "stdout.log"
    path.write_bytes(content)
    index = LineIndex(path)
    index.advance()
    line = min(line, index.lines)
    start = index.offset(line)
    assert start == min(len(content), sum(len(part) + 1 for part in lines_of(content)[:line]))
    assert index.line_at(start) == line


def test_a_monster_line_is_shortened_and_those_after_it_are_there(tmp_path: Path) -> None:
    path = tmp_path / "stdout.log"
    path.write_bytes(b"before\n" + b"x" * (PIECE * 3) + b"\n" + b"y" * (LONGEST + 5) + b"\nafter")
    index = LineIndex(path)
    index.advance()
    before, monster, long, after = index.read(0, 10)
    assert (before, after) == (b"before", b"after")
    assert monster == b"x" * LONGEST + f" … {PIECE * 3 - LONGEST:,} more bytes".encode()
    assert long == b"y" * LONGEST + " … 5 more bytes".encode()


def test_offsets_cost_an_eighth_of_a_byte_a_line(tmp_path: Path) -> None:
    path = tmp_path / "stdout.log"
    path.write_bytes(b"\n" * 1_000_000)
    index = LineIndex(path)
    index.advance()
    assert index.lines == 1_000_000
    assert len(index._offsets) <= 1_000_000 // STRIDE + 1


def test_a_file_that_is_cut_gives_what_is_left(tmp_path: Path) -> None:
    path = tmp_path / "stdout.log"
    path.write_bytes(b"one\ntwo\nthree\n")
    index = LineIndex(path)
    index.advance()
    path.write_bytes(b"one\n")
    assert index.read(0, 3) == [b"one"]
