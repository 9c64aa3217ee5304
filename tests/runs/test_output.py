"""What ranks print, followed."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from support.values.made_runs import make_run
from torchdeck.runs.rank_output import LONGEST_LINE, LogTail, OutputFollower


def test_lines_of_all_ranks_and_attempts_come_once(tmp_path: Path) -> None:
    """Each look gives what is new, also of ranks and attempts that came meanwhile."""
    layout = make_run(tmp_path, [], output={(1, 0, "stdout"): "a\nb", (1, 1, "stderr"): "e\n"})
    follower = OutputFollower(layout)
    assert [(line.rank, line.stream, line.text) for line in follower.read_new()] == [
        (0, "stdout", "a"),
        (1, "stderr", "e"),
    ]
    with layout.attempt(1).rank(0).stdout.open("a") as file:
        file.write("c\n")
    second = layout.attempt(2).rank(0).root
    second.mkdir(parents=True)
    (second / "stdout.log").write_text("again\nrest")
    assert [(line.attempt, line.text) for line in follower.read_new()] == [(1, "bc"), (2, "again")]
    assert [line.text for line in follower.read_rest()] == ["rest"]


def test_one_rank_and_one_stream_can_be_chosen(tmp_path: Path) -> None:
    """Nothing of the others is read."""
    both = {(1, rank, stream): f"{rank}{stream}\n" for rank in (0, 1) for stream in ("stdout", "stderr")}
    follower = OutputFollower(make_run(tmp_path, [], output=both), streams=("stderr",), rank=1)
    assert [line.text for line in follower.read_rest()] == ["1stderr"]


def test_progress_bars_show_their_last_state(tmp_path: Path) -> None:
    """What a carriage return overwrites is not shown, nor the one of CRLF."""
    path = tmp_path / "log"
    path.write_bytes(b"10%\r20%\r30%\nplain\r\n")
    assert LogTail(path).read_new() == ["30%", "plain"]


def test_a_line_without_end_is_given_in_pieces(tmp_path: Path) -> None:
    """Memory stays bounded where a script never ends its line."""
    path = tmp_path / "log"
    path.write_bytes(b"x" * (LONGEST_LINE + 5))
    tail = LogTail(path)
    assert sum(map(len, tail.read_new())) == LONGEST_LINE + 5
    assert tail.rest() == []


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_no_byte_is_lost_however_writes_are_cut(pieces: list[bytes]) -> None:
    """Lines are the same whether a file is read at once or as it grows."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        path.write_bytes(b"")
        tail = LogTail(path)
        grown = []
        for piece in pieces:
            with path.open("ab") as file:
                file.write(piece)
            grown += tail.read_new()
        grown += tail.rest()
        whole = LogTail(path)
        assert grown == [*whole.read_new(), *whole.rest()]


def test_output_of_earlier_attempts_can_be_left_out(tmp_path: Path) -> None:
    """A resume continues where the terminal was."""
    output = {(attempt, 0, "stdout"): f"of {attempt}\n" for attempt in (1, 2, 3)}
    follower = OutputFollower(make_run(tmp_path, [], output=output), after_attempt=2)
    assert [line.text for line in follower.read_rest()] == ["of 3"]
