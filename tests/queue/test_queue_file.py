"""The queue's file: what is written is read again, damage is told, and changes follow each other."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.values.golden_values import QUEUE
from torchdeck.contract.journal import with_crc
from torchdeck.contract.layout import Home
from torchdeck.queue.entry import AfterRun
from torchdeck.queue.queue_file import change_queue, parse_queue, queue_bytes, read_queue
from torchdeck.queue.state import Queue, QueueError

PATH = Path("queue.jsonl")


def test_a_home_without_a_file_has_an_empty_queue(tmp_path: Path) -> None:
    assert read_queue(tmp_path) == Queue()


def test_a_changed_byte_costs_one_entry_and_is_told() -> None:
    content = queue_bytes(QUEUE)
    damaged = content.replace(b"baseline", b"basellne")
    found = parse_queue(damaged, PATH)
    assert [entry.id for entry in found.entries] == ["q3"]
    assert found.damage == ("line 2 of queue.jsonl is damaged: an entry is lost",)
    assert found.next_number == 4


def test_without_its_first_line_the_numbers_continue() -> None:
    first, _, rest = queue_bytes(QUEUE).partition(b"\n")
    found = parse_queue(first[:-3] + b"\n" + rest, PATH)
    assert found.entries == QUEUE.entries
    assert found.next_number == 4
    assert found.damage == ("line 1 of queue.jsonl is damaged: its limits are lost",)


def test_the_number_of_a_lost_entry_that_another_one_names_is_not_given_again() -> None:
    waiting = replace(QUEUE.find("q3"), after=(AfterRun("q7"), AfterRun("20261123T191246Z-golden-bb7c16")))
    _, _, rest = queue_bytes(replace(QUEUE, entries=(waiting,))).partition(b"\n")
    assert parse_queue(b"damaged\n" + rest, PATH).next_number == 8


@pytest.mark.parametrize("cut", range(0, 400, 37))
def test_a_file_that_was_cut_is_read_as_far_as_it_goes(cut: int) -> None:
    content = queue_bytes(QUEUE)
    found = parse_queue(content[: len(content) - cut], PATH)
    assert set(found.entries) <= set(QUEUE.entries)
    assert bool(found.damage) == (cut > 1)


_ANY = st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9)


@given(st.sampled_from(["id", "added", "position", "ask", "places", "stage", "next", "limits"]), _ANY)
def test_a_line_with_another_value_is_left_out_or_valid(name: str, value: object) -> None:
    """Whatever it is, its checksum being right."""
    lines = []
    for line in queue_bytes(QUEUE).splitlines():
        record = {**json.loads(line), name: value}
        del record["crc"]
        lines.append(with_crc(json.dumps(record).encode()))
    found = parse_queue(b"\n".join(lines), PATH)
    assert parse_queue(queue_bytes(found), PATH).entries == found.entries
    found.waiting()


def test_a_newer_format_is_refused() -> None:
    newer = with_crc(b'{"queue": 2, "next": 1}')
    with pytest.raises(QueueError, match="newer Torchdeck"):
        parse_queue(newer, PATH)


def test_a_change_keeps_a_copy_of_a_damaged_file(tmp_path: Path) -> None:
    path = Home(tmp_path).queue
    path.write_bytes(queue_bytes(QUEUE).replace(b"baseline", b"basellne"))
    change_queue(tmp_path, lambda queue: queue.without(["q3"]))
    assert read_queue(tmp_path).entries == ()
    (aside,) = tmp_path.glob("queue.jsonl.damaged-*")
    assert b"basellne" in aside.read_bytes()


def test_a_change_that_raises_changes_nothing(tmp_path: Path) -> None:
    change_queue(tmp_path, lambda _queue: QUEUE)
    with pytest.raises(QueueError, match="no entry q9"):
        change_queue(tmp_path, lambda queue: replace(queue, entries=(queue.find("q9"),)))
    assert read_queue(tmp_path) == QUEUE
    assert Home(tmp_path).queue.stat().st_mode & 0o777 == 0o600
