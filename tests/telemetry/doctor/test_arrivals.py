"""When and what a rank reports of its arrivals at collectives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.contract.doctor.arrivals import MOST_CALLS, read_arrivals
from torchdeck.telemetry.doctor.arrivals import PERIOD, SHARE, ArrivalReports, affordable
from torchdeck.telemetry.doctor.flight_recorder import newest_calls


def entry(number: int, **changed: Any) -> dict[str, Any]:
    """As torch 2.13 writes it, keys sorted."""
    found = {
        "collective_seq_id": number,
        "input_sizes": [[1000]],
        "is_p2p": False,
        "process_group": ["0", 'a "group"'],
        "profiling_name": "gloo:all_reduce",
        "state": "scheduled",
        "time_created_ns": 1_795_525_462_373_485_051 + number * 1_000_000,
    }
    return {**found, **changed}


def recorded(entries: list[dict[str, Any]]) -> bytes:
    value = {"comm_lib_version": "", "entries": entries, "pg_config": {}, "version": "2.10"}
    return json.dumps(value, separators=(",", ":")).encode()


@given(count=st.integers(0, 40), most=st.integers(1, 50))
def test_the_newest_calls_are_read_from_the_end(count: int, most: int) -> None:
    calls = newest_calls(recorded([entry(number) for number in range(count)]), most)
    assert [call.sequence for call in calls] == list(range(count))[-most:]


def test_calls_have_kind_and_measured_time_and_no_sends() -> None:
    """Another size or operation is another kind; NCCL's duration is there if it is measured."""
    entries = [
        entry(1),
        entry(2, input_sizes=[[7]]),
        entry(3, is_p2p=True),
        entry(4, duration_ms=1.5, profiling_name="nccl:all_gather"),
    ]
    calls = newest_calls(recorded(entries), MOST_CALLS)
    assert [(call.group, call.sequence, call.spent) for call in calls] == [
        ("0", 1, None),
        ("0", 2, None),
        ("0", 4, 1500),
    ]
    assert len({call.kind for call in calls}) == 3
    assert newest_calls(b"", MOST_CALLS) == []


def test_only_news_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At multiples of the period; nothing is read if there was no collective."""
    now = [1_000.0]
    monkeypatch.setattr("torchdeck.telemetry.doctor.arrivals.time.time", lambda: now[0])
    entries = [entry(number) for number in range(3)]
    read = []

    def dump() -> bytes:
        read.append(now[0])
        return recorded(entries)

    path = tmp_path / "arrivals.json"
    reports = ArrivalReports(path, period=10.0, share=1e9)
    assert reports.wait(60) == pytest.approx(10.0)
    reports.report(3, dump)
    assert not path.exists()
    for at, enqueued in ((1_010.5, 3), (1_020.5, 3), (1_031.0, 4)):
        now[0] = at
        entries += [entry(3)] * (enqueued == 4)
        reports.report(enqueued, dump)
    assert read == [1_010.5, 1_031.0]
    found = read_arrivals(path)
    assert found is not None
    assert found.groups[0].sequences == (3,)
    assert reports.wait(60) == pytest.approx(9.0)


@given(st.floats(0, 10))
def test_reports_are_affordable(cost: float) -> None:
    """A period is a multiple of the first one: ranks with unlike costs still report at the same times."""
    period = affordable(cost)
    assert cost <= SHARE * period
    assert period == PERIOD or cost > SHARE * period / 2
    assert (period / PERIOD).is_integer()
