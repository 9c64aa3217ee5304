"""Receiving a run's code: what is missing, cuts anywhere, and what must not be taken."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.links.code_transfer import captured, content_below, transfer, written
from torchdeck.agent.snapshots.manifest import Entry, Manifest
from torchdeck.agent.snapshots.receive import Receiver
from torchdeck.contract.frames import FrameReader, encode
from torchdeck.contract.layout import RunLayout

FILES = {
    "train.py": b"print(1)\n" * 300,
    "lib/a.py": b"",
    "lib/b.py": b"x = 2\n",
    "data.bin": bytes(range(256)) * 40,
}


def answers(receiver: Receiver, *frames: bytes) -> list[str]:
    reader, back = FrameReader(), FrameReader()
    told = []
    for frame in reader.feed(b"".join(frames)):
        for answer in receiver.handle(frame):
            told += [item.kind for item in back.feed(answer)]
    return told


def listed(manifest: Manifest | bytes, run: str = "one") -> bytes:
    data = manifest if isinstance(manifest, bytes) else manifest.to_bytes()
    return encode("code_list", data, run=run, of=len(data))


def test_a_node_gets_the_whole_copy_once_and_then_only_what_is_new(tmp_path: Path) -> None:
    source, here, there = written(tmp_path / "work", FILES), tmp_path / "here", tmp_path / "there"
    first = captured(source, here)
    sent, receiver = transfer(first, there)
    assert receiver.why == ""
    copy = RunLayout(there / "runs/one")
    assert content_below(copy.code) == content_below(first.code) == FILES
    (source / "train.py").write_bytes(b"print(2)\n")
    second = captured(source, here, "two")
    again, receiver = transfer(second, there)
    assert receiver.over
    assert again < sent / 4
    assert (there / "runs/two/code/train.py").read_bytes() == b"print(2)\n"
    assert (there / "runs/two/code/data.bin").samefile(copy.code / "data.bin")
    assert (copy.code / "train.py").read_bytes() == FILES["train.py"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> RunLayout:
    folder = tmp_path_factory.mktemp("made")
    return captured(written(folder / "work", FILES), folder / "here")


@settings(deadline=None)
@given(cuts=st.lists(st.integers(0, 16_000), max_size=6))
def test_a_transfer_cut_at_any_byte_goes_on(
    made: RunLayout, tmp_path_factory: pytest.TempPathFactory, cuts: list[int]
) -> None:
    """Until all has arrived there is no copy, and then a whole one."""
    there = tmp_path_factory.mktemp("there")
    copy = RunLayout(there / "runs/one")
    for cut in cuts:
        _, receiver = transfer(made, there, cut)
        if copy.code.exists():
            assert content_below(copy.code) == FILES
        else:
            assert not receiver.over
    _, receiver = transfer(made, there)
    assert (receiver.over, receiver.why) == (True, "")
    assert content_below(copy.code) == FILES
    assert [path.name for path in copy.root.iterdir() if path.name.startswith(".")] == []


def test_what_has_arrived_is_not_sent_again(made: RunLayout, tmp_path: Path) -> None:
    whole, _ = transfer(made, tmp_path / "other")
    cut, _ = transfer(made, tmp_path / "there", whole - 100)
    rest, receiver = transfer(made, tmp_path / "there")
    assert receiver.over
    list_size = len((made.code_manifest).read_bytes())
    # of what was cut its last frame is sent again, which is less than the frame of data.bin
    assert rest < list_size + len(FILES["train.py"]) + 800 < len(FILES["data.bin"]) < cut


def test_a_copy_that_is_there_is_not_made_again(made: RunLayout, tmp_path: Path) -> None:
    transfer(made, tmp_path)
    before = (tmp_path / "runs/one/code").stat().st_ino
    sent, receiver = transfer(made, tmp_path)
    assert receiver.over
    assert sent < len(made.code_manifest.read_bytes()) + 200
    assert (tmp_path / "runs/one/code").stat().st_ino == before


def test_a_run_does_not_get_another_copy(made: RunLayout, tmp_path: Path) -> None:
    transfer(made, tmp_path)
    other = Manifest.of([Entry("a", "ab" * 32, 1)])
    receiver = Receiver(tmp_path)
    assert answers(receiver, listed(other)) == ["code_refused"]
    assert "holds another copy" in receiver.why


def test_contents_that_arrive_damaged_are_asked_for_again_and_then_given_up(tmp_path: Path) -> None:
    receiver = Receiver(tmp_path)
    manifest = Manifest.of([Entry("a", "ab" * 32, 3)])
    wrong = encode("code_blob", b"abc", key="ab" * 32, at=0)
    told = answers(receiver, listed(manifest), *[wrong, encode("code_end")] * 3)
    assert told == ["code_needed", "code_needed", "code_needed", "code_refused"]
    assert "arrived damaged 3 times" in receiver.why
    assert not (tmp_path / "runs/one/code").exists()


@pytest.mark.parametrize("run", ["", "..", "a/b", ".hidden", "x" * 300, "a\n"])
def test_names_of_runs_that_lead_elsewhere_are_refused(tmp_path: Path, run: str) -> None:
    receiver = Receiver(tmp_path / "home")
    assert answers(receiver, listed(Manifest(()), run)) == ["code_refused"]
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    "frames",
    [
        [encode("code_end")],
        [encode("code_blob", b"x", key="a", at=0)],
        [encode("other")],
        [encode("code_list", b"{}", run="one", of=1)],
        [encode("code_list", b"", run="one", of=1 << 40)],
        [listed(b"no list")],
        [listed(json.dumps({"version": 1, "entries": [["../a", "ab" * 32, 1]]}).encode())],
        [listed(Manifest(())), listed(Manifest(()))],
    ],
)
def test_what_is_no_transfer_is_refused(tmp_path: Path, frames: list[bytes]) -> None:
    receiver = Receiver(tmp_path)
    assert answers(receiver, *frames)[-1] == "code_refused"
    assert receiver.over
    assert receiver.why


def test_a_home_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("no folder")
    receiver = Receiver(tmp_path)
    assert answers(receiver, listed(Manifest(()))) == ["code_refused"]
    assert "the code cannot be written" in receiver.why
