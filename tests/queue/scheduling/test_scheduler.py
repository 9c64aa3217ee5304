"""Starts and waits of the queue, by small examples."""

from __future__ import annotations

from dataclasses import replace
from time import process_time

import pytest

from torchdeck.queue.scheduling.ask import Ask, Gpu, Machine, Place
from torchdeck.queue.scheduling.scheduler import After, Before, Limits, Running, Waiting, schedule

GIB = 2**30
ONE = Machine(
    "one", tuple(Gpu(index, f"GPU-{index}", "NVIDIA H100 80GB HBM3", 80 * GIB) for index in range(4))
)
TWO = Machine("two", tuple(Gpu(index, f"GPU-2{index}", "Tesla T4", 15 * GIB) for index in range(2)))
BARE = Machine("bare", slots=2)


def gpus(count: int | None, *nodes: str, **more: object) -> Ask:
    return replace(Ask(nodes or ("one",), gpus=count), **more)  # type: ignore[arg-type]  # fields by name


def entry(name: str, ask: Ask, **more: object) -> Waiting:
    return replace(Waiting(name, ask, position=int(name[1:])), **more)  # type: ignore[arg-type]  # the same


def taken(owner: str, *indices: int, node: str = "one", **more: object) -> Running:
    return replace(Running(owner, (Place(node, indices),)), **more)  # type: ignore[arg-type]  # the same


def test_entries_share_a_machine_in_order_of_arrival() -> None:
    found = schedule([entry("q2", gpus(1)), entry("q1", gpus(3)), entry("q3", gpus(1))], [ONE], [], 0.0)
    assert found.starts == {"q1": (Place("one", (0, 1, 2)),), "q2": (Place("one", (3,)),)}
    assert found.waits["q3"].why == "it needs 1 GPU; q1, q2 use those of one"


def test_nothing_of_unknown_length_passes_an_entry_that_could_use_the_device() -> None:
    waiting = [entry("q1", gpus(2)), entry("q2", gpus(1)), entry("q3", gpus(1, "two"))]
    found = schedule(waiting, [ONE, TWO], [taken("run a", 0, 1, 2)], 0.0)
    assert list(found.starts) == ["q3"]
    assert found.waits["q2"].why == "it needs 1 GPU; what is free on one is kept for q1"


def test_a_short_run_passes_if_those_ahead_start_no_later() -> None:
    ahead, busy = entry("q1", gpus(4)), taken("run a", 0, 1, 2, ends=100.0)
    short, long = entry("q2", gpus(1), limit=90.0), entry("q2", gpus(1), limit=110.0)
    assert list(schedule([ahead, short], [ONE], [busy], 0.0).starts) == ["q2"]
    found = schedule([ahead, long], [ONE], [busy], 0.0)
    assert not found.starts
    assert found.waits["q1"].certain == 100.0
    assert not schedule([ahead, short], [ONE], [replace(busy, ends=None)], 0.0).starts


def test_priority_comes_before_arrival() -> None:
    found = schedule([entry("q1", gpus(3)), entry("q2", gpus(3), priority=1)], [ONE], [], 0.0)
    assert list(found.starts) == ["q2"]


def test_what_may_not_start_keeps_no_device_from_others() -> None:
    pending, broken = After("it waits until q9 has ended", Before.PENDING), After("q8 failed", Before.BROKEN)
    waiting = [
        entry("q1", gpus(4), held="it is paused"),
        entry("q2", gpus(4), after=(pending, broken)),
        entry("q3", gpus(4), after=(pending,)),
        entry("q4", gpus(9)),
        entry("q5", gpus(1)),
    ]
    found = schedule(waiting, [ONE], [], 0.0)
    assert list(found.starts) == ["q5"]
    assert [found.waits[name].why for name in ("q1", "q2", "q3", "q4")] == [
        "it is paused",
        "q8 failed",
        "it waits until q9 has ended",
        "it never fits: it needs 9 GPUs of one model, and one has 4 NVIDIA H100 80GB HBM3",
    ]


def test_limits_count_runs_of_the_queue() -> None:
    running = [taken("q0", 0, user="ann", tags=("sweep",)), taken("run a", 1, user="ann", counts=False)]
    waiting = [
        entry("q1", gpus(1), user="ann", tags=("sweep",)),
        entry("q2", gpus(1), user="ann"),
        entry("q3", gpus(1), user="ann"),
        entry("q4", gpus(1), user="bob"),
    ]
    found = schedule(waiting, [replace(ONE, gpus=(*ONE.gpus, Gpu(4)))], running, 0.0, Limits(2, {"sweep": 1}))
    assert list(found.starts) == ["q2", "q4"]
    assert found.waits["q1"].why == "the limit of tag sweep is 1 run at once: q0"
    assert found.waits["q3"].why == "the limit of user ann is 2 runs at once: q0, q2"


def test_a_limit_is_kept_for_an_entry_that_waits_for_devices() -> None:
    waiting = [entry("q1", gpus(4), tags=("sweep",)), entry("q2", gpus(1, "two"), tags=("sweep",))]
    found = schedule(waiting, [ONE, TWO], [taken("run a", 0)], 0.0, Limits(None, {"sweep": 1}))
    assert not found.starts
    assert found.waits["q2"].why == "the limit of tag sweep is 1 run at once: q1"


def test_model_memory_and_names_choose_devices() -> None:
    both = [ONE, TWO]
    asks = {
        "q1": gpus(1, "one", "two", model="T4"),
        "q2": gpus(1, "two", "one", memory=40 * GIB),
        "q3": gpus(2, "one", named=(3, "GPU-2")),
        "q4": gpus(None, "two"),
    }
    found = schedule([entry(name, ask) for name, ask in asks.items()], both, [], 0.0)
    assert found.starts == {
        "q1": (Place("two", (0,)),),
        "q2": (Place("one", (0,)),),
        "q3": (Place("one", (2, 3)),),
    }
    assert found.waits["q4"].why == "it needs all GPUs; q1 uses those of two"


def test_a_machine_takes_as_many_cpu_runs_as_it_has_slots() -> None:
    ask = Ask(("bare",), gpus=2, or_cpu=True)
    found = schedule([entry(f"q{number}", ask) for number in range(3)], [BARE], [], 0.0)
    assert found.starts == {"q0": (Place("bare"),), "q1": (Place("bare"),)}
    assert found.waits["q2"].why == "it needs 2 GPUs of one model or a CPU slot; q0, q1 use those of bare"


def test_several_nodes_get_the_same_indices() -> None:
    other = replace(ONE, name="other")
    running = [taken("run a", 0, 1), taken("run b", 2, node="other")]
    names = ("one", "other", "two")
    found = schedule([entry("q1", replace(gpus(1, *names), count=2))], [ONE, other, TWO], running, 0.0)
    assert found.starts == {"q1": (Place("one", (3,)), Place("other", (3,)))}


def test_a_node_that_does_not_answer_is_told_and_keeps_nothing_closed() -> None:
    gone = replace(TWO, away="it does not answer")
    waiting = [entry("q1", replace(gpus(1, "one", "two"), count=2)), entry("q2", gpus(1))]
    found = schedule(waiting, [ONE, gone], [], 0.0)
    assert list(found.starts) == ["q2"]
    assert found.waits["q1"].why == "two cannot be used now: it does not answer"


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (gpus(1, "one", "gone"), ""),
        (replace(gpus(1, "one", "gone"), count=2), "unknown node: gone"),
        (Ask(()), "the node inventory has no node for it"),
        (gpus(1, "bare"), "it never fits: it needs 1 GPU, and bare has no GPU"),
        (Ask(("full",)), "it never fits: it needs a CPU slot, and full has 0 CPU slots"),
        (gpus(1, "two", model="H100"), "it never fits: it needs 1 GPU (H100), and two has 2 Tesla T4"),
    ],
)
def test_what_never_fits_says_why(ask: Ask, why: str) -> None:
    machines = [ONE, TWO, BARE, replace(BARE, name="full", slots=0)]
    waits = schedule([entry("q1", ask)], machines, [], 0.0).waits
    assert (waits["q1"].why if waits else "") == why


def test_starts_are_estimated_by_expected_lengths() -> None:
    running = [taken("run a", 0, 1, 2, 3, expected=50.0)]
    waiting = [
        entry("q1", gpus(4), expected=30.0),
        entry("q2", gpus(1), expected=None),
        entry("q3", gpus(4), expected=30.0),
    ]
    found = schedule(waiting, [ONE], running, 0.0).waits
    assert [found[name].estimate for name in ("q1", "q2", "q3")] == [50.0, 80.0, None]
    assert found["q1"].certain is None


def test_a_thousand_entries_are_scheduled_at_once() -> None:
    """In tens of milliseconds; the wide limit is there for machines with other work."""
    waiting = [entry(f"q{number}", gpus(1 + number % 3), limit=600.0) for number in range(1000)]
    begin = process_time()
    found = schedule(waiting, [ONE, TWO], [taken("run a", 0, 1, 2, 3, ends=60.0)], 0.0)
    assert len(found.waits) == 1000
    assert process_time() - begin < 20
