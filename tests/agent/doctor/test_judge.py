"""One verdict from all ranks' evidence."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.doctor.evidence import SAVING, TORCH, WAITING, call, elsewhere, rank, waits
from torchdeck.agent.doctor.evidence import Collective, Frame, Group, Kind, RankEvidence, Verdict
from torchdeck.agent.doctor.judge import UNREACHABLE, WORKING_LIMIT, judge
from torchdeck.agent.doctor.stalls import LONG_PHASES
from torchdeck.contract.doctor.rank_heartbeat import GroupCounts


def verdict(ranks: Iterable[RankEvidence], *nodes: str) -> Verdict:
    found = {item.rank: item for item in ranks}
    return judge(found, {number: nodes[number] if nodes else "localhost" for number in found})


def test_one_rank_elsewhere() -> None:
    """Rank, node, line, group, collective, and the line of those that wait."""
    found = verdict([waits(0), elsewhere(1), waits(2), waits(3)], "gpu3", "gpu4", "gpu4", "gpu5")
    assert (found.kind, found.rank, found.place) == (Kind.ELSEWHERE, 1, "train.py:84 save_model")
    assert found.sentence == (
        "Rank 1 on gpu4 is in train.py:84 save_model; ranks 0, 2 and 3 wait for it in all_reduce #1204 "
        "(1,024 floats), train.py:61 step. Every rank must reach the same collectives."
    )


def test_a_group_is_named_by_its_description() -> None:
    group = (Group("7", (0, 1), "dp"),)
    waiting = rank(0, frames=WAITING, groups=group, collectives=(call(3, group="7"),))
    late = rank(1, frames=SAVING, groups=group, collectives=(call(2, group="7", done=True),))
    assert "in all_reduce #3 of group dp (1,024 floats)" in verdict([waiting, late]).sentence


RANKS = st.integers(2, 6)


@given(RANKS, st.data(), st.integers(1, 10**6), st.booleans())
def test_absent_ranks_are_blamed_and_waiting_ones_never(
    count: int, data: st.DataObject, sequence: int, with_stacks: bool
) -> None:
    absent = data.draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=count - 1))
    frames = SAVING if with_stacks else ()
    found = verdict(
        elsewhere(number, sequence, of=count, frames=frames)
        if number in absent
        else waits(number, sequence, of=count)
        for number in range(count)
    )
    assert found.is_hang
    assert found.rank in absent
    assert set(found.ranks) <= absent


@given(RANKS, st.data(), st.sampled_from(["operation", "count"]))
def test_whoever_calls_something_else_is_named(count: int, data: st.DataObject, what: str) -> None:
    """Operation or size differ: both calls are in the sentence, and the smaller part is blamed."""
    odd = data.draw(st.integers(0, count - 1))
    other = call(9, operation="broadcast") if what == "operation" else call(9, count=7)
    mine = (Frame(TORCH, 1, "broadcast", calls=True), Frame("/code/train.py", 99, "sync"))
    ranks = [waits(number, 9, of=count) for number in range(count)]
    ranks[odd] = rank(odd, of=count, frames=mine, collectives=(call(8, done=True), other))
    found = verdict(ranks)
    assert found.kind is Kind.MISMATCH
    assert count == 2 or found.rank == odd
    assert "train.py:61 step" in found.sentence
    assert "train.py:99 sync" in found.sentence


def test_a_call_that_is_over_has_no_line() -> None:
    """Rank 1 has returned from its broadcast, and waits in the next collective at another line."""
    over = waits(1, 41, collectives=(call(40, operation="broadcast", done=True), call(41)))
    found = verdict([waits(0, 40), over, waits(2, 40), waits(3, 40)])
    assert (found.kind, found.rank, found.place) == (Kind.MISMATCH, 1, "")
    assert found.sentence == (
        "Ranks call different collectives: ranks 0, 2 and 3 call all_reduce #40 (1,024 floats) at "
        "train.py:61 step, but rank 1 has called broadcast #40 (1,024 floats) and is now at train.py:61 "
        "step. All must call the same ones in the same order."
    )


@pytest.mark.parametrize(
    ("collectives", "frames", "inside"),
    [
        ((call(40, count=7),), WAITING, True),
        ((call(40, count=7, done=True),), WAITING, False),
        ((call(40, count=7), call(41)), WAITING, False),
        ((call(40, count=7), call(3, group="1")), WAITING, True),
        ((call(40, count=7),), SAVING, False),
        ((call(40, count=7),), (Frame("/x/site-packages/torch/autograd/graph.py", 1, "run"), *SAVING), True),
        ((call(40, count=7),), (), False),
    ],
)
def test_the_line_of_a_call_is_that_of_a_stack_in_it(
    collectives: tuple[Collective, ...], frames: tuple[Frame, ...], *, inside: bool
) -> None:
    """Not done, the newest of its group, and the stack is in a collective, or in the backward pass of DDP."""
    odd = waits(1, collectives=collectives, frames=frames)
    found = verdict([waits(0, 40), odd, waits(2, 40), waits(3, 40)])
    place = "" if not frames else "train.py:61 step" if frames == WAITING else "train.py:84 save_model"
    called = f"rank 1 {'calls' if inside else 'has called'} all_reduce #40 (7 floats)"
    at = f" {'at' if inside else 'and is now at'} {place}" if place else ""
    assert f"{called}{at}. All must" in found.sentence
    assert found.place == (place if inside else "")


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"count": 0}, "all_reduce #40 (0 floats)"),
        ({"count": 1}, "all_reduce #40 (1 float)"),
        ({"count": 0, "types": "Double"}, "all_reduce #40 (0 doubles)"),
        ({"types": "Double"}, "all_reduce #40 (1,024 doubles)"),
        ({"types": "Float,Double"}, "all_reduce #40 (1,024 elements: float, double)"),
        ({"types": ""}, "all_reduce #40 (1,024 elements)"),
        ({"shapes": "[]", "types": "", "operation": "barrier"}, "barrier #40 at"),
        ({"shapes": "[[]]"}, "all_reduce #40 (1 float)"),
        ({"shapes": "["}, "all_reduce #40 at"),
    ],
)
def test_size_and_type_of_each_call_are_shown(change: dict[str, object], shown: str) -> None:
    """Also of an empty tensor; a barrier has none, and damaged sizes are not known."""
    count, operation, *_ = change.pop("count", 1024), change.pop("operation", "all_reduce")
    odd = call(40, count=count, operation=operation)._replace(**change)  # type: ignore[arg-type] # as above
    found = verdict([waits(0, 40), waits(1, collectives=(odd,)), waits(2, 40), waits(3, 40)])
    assert "ranks 0, 2 and 3 call all_reduce #40 (1,024 floats) at" in found.sentence
    assert f"but rank 1 calls {shown}" in found.sentence


def test_other_sizes_are_no_mismatch_where_they_may_differ() -> None:
    ranks = [waits(0, 9, of=2), waits(1, 9, of=2)]
    ranks = [
        found._replace(collectives=(call(9, operation="all_to_all", count=5 + found.rank),))
        for found in ranks
    ]
    assert verdict(ranks).kind is Kind.COLLECTIVE


@given(RANKS)
def test_all_in_the_same_collective_are_held_up_by_the_network(count: int) -> None:
    found = verdict(waits(number, 12, of=count) for number in range(count))
    assert (found.kind, found.rank) == (Kind.COLLECTIVE, None)
    assert "all_reduce #12" in found.sentence


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"state": "T"}, Kind.STOPPED, "Rank 1 is stopped (SIGSTOP), at train.py:84 save_model"),
        ({"state": "t"}, Kind.STOPPED, "is held by a debugger"),
        ({"state": "gone"}, Kind.DEAD, "has died without an exit code (process 1001)"),
        (
            {"state": "gone", "counts": (GroupCounts("0", 1204, 1203), GroupCounts("7", 3, 3))},
            Kind.DEAD,
            "(process 1001), after it began collective #1204, #3 of group 7; ranks 0, 2 and 3 wait for it",
        ),
        ({"state": UNREACHABLE, "frames": ()}, Kind.MACHINE, "is on a node that does not answer"),
        (
            {"state": "D", "blocked": True, "kernel": "nfs_wait of /mnt/x"},
            Kind.DISK,
            "file system (nfs_wait of /mnt/x)",
        ),
        ({"beating": False, "state": "R"}, Kind.NATIVE, "that does not return, called at train.py:84"),
        ({"native": True, "state": "R"}, Kind.NATIVE, "native code"),
        ({"known": False, "frames": ()}, Kind.ABSENT, "has not arrived; nothing is known of its program"),
        ({"ended": True}, Kind.ABSENT, "Rank 1 has ended; ranks 0, 2 and 3 wait for it"),
    ],
)  # fmt: skip
def test_what_stops_a_rank_is_its_class(change: dict[str, object], kind: Kind, words: str) -> None:
    found = verdict([waits(0), elsewhere(1)._replace(**change), waits(2), waits(3)])  # type: ignore[arg-type] # as above
    assert (found.kind, found.rank) == (kind, 1)
    assert words in found.sentence


def test_a_program_without_heartbeat_that_no_rank_waits_for() -> None:
    """No collective is known that it should reach."""
    silent = RankEvidence(0, pid=7, state="S", still=121.4, limit=30.0, kernel="hrtimer_nanosleep")
    found = verdict([silent])
    assert (found.kind, found.rank) == (Kind.ABSENT, 0)
    assert found.sentence.startswith(
        "Rank 0 has made no progress for 121 s; nothing is known of its program, which waits in the kernel "
        "(hrtimer_nanosleep)."
    )
    two = verdict([silent, silent._replace(rank=1)])
    assert (
        "Ranks 0 and 1 have made no progress for 121 s; nothing is known of their programs." in two.sentence
    )


def test_a_save_in_state_d_has_as_long_as_any_other() -> None:
    saves = elsewhere(1, state="D", blocked=True, phase="saving")
    assert verdict([waits(0), saves, waits(2), waits(3)]).kind is Kind.WORKING
    endless = saves._replace(still=LONG_PHASES * saves.limit)
    assert verdict([waits(0), endless, waits(2), waits(3)]).kind is Kind.DISK


@pytest.mark.parametrize(
    "file", ["/torch/serialization.py", "/torch/distributed/checkpoint/filesystem.py", "/torch/_dynamo/x.py"]
)
def test_a_save_or_compilation_is_known_by_the_stack(file: str) -> None:
    """A script reports no phase."""
    frames = (Frame("/usr/lib/python3.11/threading.py", 1, "wait"), Frame(file, 9, "save", calls=True))
    busy = elsewhere(1, frames=(*frames, *SAVING))
    assert verdict([waits(0), busy, waits(2), waits(3)]).kind is Kind.WORKING
    endless = busy._replace(still=LONG_PHASES * busy.limit)
    assert verdict([waits(0), endless, waits(2), waits(3)]).rank == 1


@pytest.mark.parametrize("blocked", [False, True])
def test_a_waiting_rank_is_not_blamed_for_the_disk(*, blocked: bool) -> None:
    """Rank 0 sleeps; rank 2, which waits for it, is in state D."""
    found = verdict([elsewhere(0), waits(1), waits(2, state="D", blocked=blocked), waits(3)])
    assert (found.kind, found.rank) == (Kind.ELSEWHERE, 0)


def test_a_moment_in_state_d_is_no_defect_of_the_disk() -> None:
    found = verdict([waits(0), elsewhere(1, state="D"), waits(2), waits(3)])
    assert (found.kind, found.rank) == (Kind.ELSEWHERE, 1)


def test_a_rank_that_waits_for_data_has_a_starved_loader() -> None:
    loader = Frame(
        "/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py", 1500, "_next_data", calls=True
    )
    frames = (Frame("/usr/lib/python3.11/queue.py", 180, "get"), loader, Frame("/code/train.py", 40, "main"))
    found = verdict([waits(0), elsewhere(1, frames=frames, workers="process 7 is dead"), waits(2), waits(3)])
    assert found.kind is Kind.DATA
    assert "Rank 1 waits for data (process 7 is dead) in train.py:40 main" in found.sentence


def test_a_rank_at_work_is_no_hang_until_it_works_for_very_long() -> None:
    """A long evaluation of one rank, for which the others wait."""
    busy = elsewhere(1, working=True)
    assert not verdict([waits(0), busy, waits(2), waits(3)]).is_hang
    endless = busy._replace(still=WORKING_LIMIT * busy.limit + 1)
    assert verdict([waits(0), endless, waits(2), waits(3)]).rank == 1


def test_a_run_that_was_stopped_as_a_whole_does_not_hang() -> None:
    assert verdict(waits(number, state="T") for number in range(4)).kind is Kind.FROZEN


def test_ranks_that_wait_for_one_another_in_two_groups() -> None:
    """Each is in another group's collective: the order differs."""
    groups = (Group("1", (0, 1), "tp"), Group("2", (0, 1), "dp"))
    ranks = [
        rank(0, frames=WAITING, groups=groups, collectives=(call(5, group="1"),)),
        rank(1, frames=WAITING, groups=groups, collectives=(call(5, group="2"),)),
    ]
    found = verdict(ranks)
    assert found.kind is Kind.MISMATCH
    assert "of group tp" in found.sentence
    assert "of group dp" in found.sentence


def test_work_that_nobody_waited_for_does_not_make_a_rank_wait() -> None:
    """gloo marks a collective as done when the program waits for it, which it need not."""
    never = elsewhere(1)._replace(collectives=(call(1202), call(1203)))
    found = verdict([waits(0), never, waits(2), waits(3)])
    assert (found.kind, found.rank) == (Kind.ELSEWHERE, 1)


@pytest.mark.parametrize(
    ("file", "shown"),
    [
        ("/node/shipped/9ab0/torchdeck/distributed/base.py", "torchdeck/distributed/base.py:148 backward"),
        ("/v/lib/python3.11/site-packages/lightning/x.py", "lightning/x.py:148 backward"),
        (
            "/v/lib/python3.11/site-packages/torchdeck/distributed/x.py",
            "torchdeck/distributed/x.py:148 backward",
        ),
        ("/v/lib/python3.11/site-packages/one.py", "one.py:148 backward"),
        ("/usr/lib/python3.11/json.py", "json.py:148 backward"),
        ("/home/me/torchdeck/train.py", "train.py:148 backward"),
    ],
)
def test_a_line_that_is_not_the_users_is_shown_with_its_package(file: str, shown: str) -> None:
    """The loop of a recipe is Torchdeck's: no frame is the user's."""
    frames = (Frame("/v/site-packages/torch/autograd/graph.py", 9, "x"), Frame(file, 148, "backward"))
    waiting = waits(0, of=2, frames=frames)
    assert f"#1204 (1,024 floats), {shown}. Every" in verdict([waiting, elsewhere(1, of=2)]).sentence


def test_a_chain_leads_to_its_end() -> None:
    """Rank 0 waits for 1 in one group, which waits for 2 in another: 2 is to blame."""
    first, second = Group("1", (0, 1), "tp"), Group("2", (1, 2), "dp")
    ranks = [
        rank(0, frames=WAITING, groups=(first,), collectives=(call(5, group="1"),)),
        rank(
            1,
            frames=WAITING,
            groups=(first, second),
            collectives=(call(4, group="1", done=True), call(8, group="2")),
        ),
        rank(2, frames=SAVING, groups=(second,), collectives=(call(7, group="2", done=True),)),
    ]
    assert verdict(ranks).rank == 2


def test_a_receive_waits_for_its_sender() -> None:
    receives = rank(0, of=2, frames=WAITING, collectives=(call(1, operation="recv 0<-1", p2p=True),))
    assert verdict([receives, rank(1, of=2, frames=SAVING)]).rank == 1


def test_without_any_collective_the_stalled_rank_is_blamed() -> None:
    """A program that has no process group: its line is known all the same."""
    alone = rank(0, of=1, frames=SAVING, groups=())
    assert verdict([alone]).sentence.startswith("Rank 0 is in train.py:84 save_model.")
    moving = rank(1, frames=SAVING, groups=(), still=0.1)
    assert verdict([alone, moving]).ranks == (0,)


NUMBER = st.integers(0, 5)
FRAMES = st.sampled_from([(), WAITING, SAVING, (Frame("<frozen x>", 1, ""),)])
CALLS = st.builds(
    Collective,
    st.sampled_from("01"),
    NUMBER,
    st.sampled_from(["gloo:all_reduce", "nccl:recv 0<-1", "x"]),
    st.sampled_from(["[[4]]", "[", "[[[1]]]", "7", '[["a"]]']),
    done=st.booleans(),
    p2p=st.booleans(),
)
EVIDENCE = st.builds(
    RankEvidence,
    rank=NUMBER,
    state=st.sampled_from(["", "R", "S", "D", "T", "t", "Z", "gone", UNREACHABLE]),
    ended=st.booleans(),
    still=st.sampled_from([0.0, 40.0, 1e6]),
    limit=st.just(30.0),
    known=st.booleans(),
    beating=st.booleans(),
    working=st.booleans(),
    blocked=st.booleans(),
    frames=FRAMES,
    groups=st.sampled_from(
        [(), (Group("0", (0, 1, 7), "default_pg"),), (Group("1", (1,)), Group("0", (2, 3)))]
    ),
    collectives=st.lists(CALLS, max_size=3).map(tuple),
)


@given(st.lists(EVIDENCE, min_size=1, max_size=4), st.randoms())
def test_any_evidence_has_one_verdict(evidence: list[RankEvidence], random: Random) -> None:
    """It names ranks that there are, and does not depend on the order in which nodes answer."""
    ranks = {number: found._replace(rank=number) for number, found in enumerate(evidence)}
    nodes = {number: f"n{number % 2}" for number in ranks}
    found = judge(ranks, nodes)
    assert found.sentence
    assert set(found.ranks) <= set(ranks)
    assert found.rank is None or found.rank in ranks
    order = list(ranks)
    random.shuffle(order)
    assert judge({number: ranks[number] for number in order}, nodes) == found


def test_a_rank_that_waits_elsewhere_by_its_stack_alone_is_to_blame() -> None:
    """A receive on gloo names no peer."""
    receives = (Frame(TORCH, 2900, "recv", calls=True), Frame("/code/train.py", 30, "exchange"))
    found = verdict([waits(0), elsewhere(1, frames=receives), waits(2), waits(3)])
    assert (found.rank, found.place) == (1, "train.py:30 exchange")
