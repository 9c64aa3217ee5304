"""Journals: appended lines, torn tails, newer formats."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torchdeck.contract.journal import (
    Event,
    JournalReader,
    JournalWriter,
    NewerFormatError,
    PatientJournalWriter,
    read_journal,
)

REAL_WRITE = os.write
FIELDS = st.dictionaries(
    st.text(min_size=1).filter(lambda name: name not in ("v", "t", "m", "event", "crc", "self", "durable")),
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.lists(st.text())),
    max_size=4,
)


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(fields=FIELDS)
def test_events_come_back(tmp_path: Path, fields: dict[str, object]) -> None:
    """Name, fields and times, whatever characters are in them."""
    path = tmp_path / "journal.jsonl"
    path.unlink(missing_ok=True)
    with JournalWriter(path) as journal:
        journal.append("happened", durable=False, **fields)
    (event,) = read_journal(path)
    assert (event.name, dict(event.fields)) == ("happened", fields)
    assert event.time > 1e9


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_torn_tail_costs_one_event(tmp_path: Path, cut: int) -> None:
    """A line cut by a crash is closed by the next writer, counted, and nothing after it is lost."""
    path = tmp_path / "journal.jsonl"
    with JournalWriter(path) as journal:
        journal.append("first")
        journal.append("second")
    path.write_bytes(path.read_bytes()[:-cut])
    with JournalWriter(path) as journal:
        journal.append("third")
    reader = JournalReader(path)
    names = [event.name for event in reader.read_new()]
    assert names in (["first", "third"], ["first", "second", "third"])
    assert names == (["first", "second", "third"] if cut == 1 else ["first", "third"])
    assert reader.torn == (0 if cut == 1 else 1)


def test_a_reader_gives_each_event_once_and_waits_for_whole_lines(tmp_path: Path) -> None:
    """Half a line is read once its end is there."""
    path = tmp_path / "journal.jsonl"
    reader = JournalReader(path)
    assert list(reader.read_new()) == []
    line = json.dumps({"v": 1, "t": 1.0, "m": 2.0, "event": "a"}).encode() + b"\n"
    with path.open("ab", buffering=0) as file:
        file.write(line + line[:10])
        assert [event.name for event in reader.read_new()] == ["a"]
        assert list(reader.read_new()) == []
        file.write(line[10:])
        assert [event.name for event in reader.read_new()] == ["a"]


def test_a_newer_journal_is_refused(tmp_path: Path) -> None:
    """With a sentence that says what to do."""
    path = tmp_path / "journal.jsonl"
    path.write_text('{"v": 99, "t": 1, "m": 1, "event": "x"}\n')
    with pytest.raises(NewerFormatError, match="update Torchdeck"):
        read_journal(path)


@pytest.mark.parametrize("line", ["[]", "3", "{}", '{"v": "x"}', '{"v": 1, "t": 1, "m": 1}', "\x00\x00"])
def test_lines_that_are_no_events_are_counted(tmp_path: Path, line: str) -> None:
    """Damage in the middle costs that line alone."""
    path = tmp_path / "journal.jsonl"
    good = '{"v": 1, "t": 1, "m": 1, "event": "x"}'
    path.write_text(f"{good}\n{line}\n{good}\n")
    reader = JournalReader(path)
    assert len(list(reader.read_new())) == 2
    assert reader.torn == 1


def small_disk_write(room: int) -> Callable[[int, bytes], int]:
    """os.write on a disk with `room` bytes left."""
    left = [room]

    def write(descriptor: int, content: bytes) -> int:
        if left[0] == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = REAL_WRITE(descriptor, content[: left[0]])
        left[0] -= written
        return written

    return write


def test_an_event_after_a_torn_one_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk was full in the middle of a line: the next event begins a line of its own."""
    path = tmp_path / "journal.jsonl"
    with JournalWriter(path) as journal:
        monkeypatch.setattr(os, "write", small_disk_write(20))
        with pytest.raises(OSError, match="20 of"):
            journal.append("torn")
        monkeypatch.undo()
        journal.append("whole")
    assert [event.name for event in read_journal(path)] == ["whole"]


def test_events_wait_for_room_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A patient writer raises nothing; once there is room all events are there, in their order, once."""
    path = tmp_path / "journal.jsonl"
    with PatientJournalWriter(path) as journal:
        journal.append("first")
        monkeypatch.setattr(os, "write", small_disk_write(20))
        journal.append("second")
        journal.append("third", number=3)
        assert not journal.catch_up()
        monkeypatch.undo()
        assert journal.catch_up()
        journal.append("fourth")
    events = read_journal(path)
    assert [event.name for event in events] == ["first", "second", "third", "fourth"]
    assert events[2].fields == {"number": 3}
    assert "events wait" in capsys.readouterr().err


def test_a_name_that_is_no_utf8_comes_back(tmp_path: Path) -> None:
    """A path may hold any bytes but one; Python carries them as surrogates."""
    path = tmp_path / "journal.jsonl"
    with JournalWriter(path) as journal:
        journal.append("created", source=os.fsdecode(b"bad \xff.py"))
    (event,) = read_journal(path)
    assert os.fsencode(event.fields["source"]) == b"bad \xff.py"


def test_no_changed_byte_changes_an_event(tmp_path: Path) -> None:
    """It costs the line, or the two that it joins, and is counted. In the name of the checksum it costs
    nothing.
    """
    path = tmp_path / "journal.jsonl"
    with JournalWriter(path) as journal:
        journal.append("launching", attempt=1, nodes=["a"], why="grün")
        journal.append("finished", state="SUCCEEDED")
    whole, events = path.read_bytes(), read_journal(path)
    for at in range(len(whole)):
        for flipped in (1, 2, 0x20, 0x80):
            changed = bytearray(whole)
            changed[at] ^= flipped
            path.write_bytes(changed)
            reader = JournalReader(path)
            found = [_without_renamed_checksum(event) for event in reader.read_new()]
            assert all(event in events for event in found), (at, flipped)
            assert len(found) == len(events) or reader.torn or at == len(whole) - 1, (at, flipped)


def _without_renamed_checksum(event: Event) -> Event:
    known = ("attempt", "nodes", "why", "state")
    return replace(event, fields={name: event.fields[name] for name in event.fields if name in known})


def test_lines_of_older_versions_have_no_checksum(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text('{"v": 1, "t": 5, "m": 1, "event": "old", "x": 1}\n')
    with JournalWriter(path) as journal:
        journal.append("new", x=2)
    assert [(event.name, dict(event.fields)) for event in read_journal(path)] == [
        ("old", {"x": 1}),
        ("new", {"x": 2}),
    ]
    assert list(json.loads(path.read_text().splitlines()[1]))[-1] == "crc"
