"""Sending a run's code to a node."""

from pathlib import Path

import pytest

from support.links.code_transfer import captured, content_below, transfer, written
from torchdeck.contract.frames import Frame, FrameReader, encode
from torchdeck.contract.layout import RunLayout
from torchdeck.launching.code.send import CodeNotSentError, Progress, Sender

FILES = {
    "train.py": b"print(1)\n",
    "lib/__init__.py": b"",
    "data.bin": bytes(range(256)) * 12_000,
    "lib/odd name\n.py": b"x",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> RunLayout:
    folder = tmp_path_factory.mktemp("made")
    return captured(written(folder / "work", FILES), folder / "here")


def send(layout: RunLayout, home: Path, cut_after: int | None = None) -> list[Progress]:
    """Send to a node's end, which is cut off after so many bytes; how far it said it was."""
    told: list[Progress] = []
    transfer(layout, home, cut_after, told.append)
    return told


def test_a_node_gets_the_copy_with_progress(made: RunLayout, tmp_path: Path) -> None:
    told = send(made, tmp_path)
    assert content_below(tmp_path / "runs/one/code") == FILES
    total = sum(map(len, FILES.values()))
    assert (told[0], told[-1]) == (Progress(0, total), Progress(total, total))
    assert [progress.sent for progress in told] == sorted(progress.sent for progress in told)
    assert send(made, tmp_path) == []  # it is there: nothing is sent


def test_a_transfer_cut_in_the_middle_goes_on_where_it_was(made: RunLayout, tmp_path: Path) -> None:
    send(made, tmp_path, 1_500_000)
    assert not (tmp_path / "runs/one/code").exists()
    told = send(made, tmp_path)
    assert told[0].size < sum(map(len, FILES.values()))
    assert content_below(tmp_path / "runs/one/code") == FILES


def test_a_node_that_cannot_write_says_why(made: RunLayout, tmp_path: Path) -> None:
    (tmp_path / "runs").touch()
    with pytest.raises(CodeNotSentError, match="cannot be written"):
        send(made, tmp_path)


def test_a_run_without_a_copy_has_nothing_to_send(tmp_path: Path) -> None:
    with pytest.raises(CodeNotSentError, match="no copy of the code"):
        Sender(RunLayout(tmp_path))


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (encode("code_refused", why="no room"), "no room"),
        (encode("code_done", tree="ab"), "another copy"),
        (encode("code_needed", b'[["/etc/passwd", 0]]', more=False), "asks for what no copy has"),
        (encode("code_needed", b"{", more=False), "asks for what no copy has"),
        (encode("journal"), "no part of a transfer"),
    ],
)
def test_what_a_node_may_not_say_is_refused(made: RunLayout, frame: bytes, why: str) -> None:
    (read,) = FrameReader().feed(frame)
    assert isinstance(read, Frame)
    with pytest.raises(CodeNotSentError, match=why):
        list(Sender(made).handle(read))
