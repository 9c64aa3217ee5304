"""Stragglers over several reports, and what is said of them."""

from __future__ import annotations

import pytest

from agent.doctor.test_waiting_times import STEP, gang
from torchdeck.agent.doctor.rank_facts import PlaceShare, RankFacts, StragglerReport
from torchdeck.agent.doctor.stragglers import (
    REPORTS,
    Straggler,
    StragglerWatch,
    differences,
    sentence,
)
from torchdeck.agent.gang import commands, events
from torchdeck.agent.gang.attempt_state import Stragglers
from torchdeck.agent.leader.gang_messages import event_from_json, to_json
from torchdeck.agent.leader.leader import Offset, on_our_clock
from torchdeck.contract.doctor.arrivals import GroupArrivals, RankArrivals

SECOND = 1_000_000


def reports(
    number: int, slow: int | None, world: int = 3, extra: float = 1.0, steps: int = 40
) -> list[StragglerReport]:
    """The reports of all ranks on so many steps, the `number`th of them."""
    seconds = steps * (STEP * (1 + extra) + 500) / SECOND
    ranks = gang(world, lambda rank, _: round(STEP * (1 + (extra if rank == slow else 0))), steps)
    return [
        StragglerReport(
            RankFacts(rank, step=100 * number, stolen=0.4 if rank == slow else 0.01),
            RankArrivals(
                found.begin + round(seconds * SECOND * number), (_later(found.groups[0], 1000 * number),)
            ),
        )
        for rank, found in ranks.items()
    ]


def _later(group: GroupArrivals, collectives: int) -> GroupArrivals:
    return group._replace(sequences=tuple(number + collectives for number in group.sequences))


def test_it_is_named_after_a_few_reports_and_over_after_as_many() -> None:
    """Since its first slow report; one report without it in between ends nothing."""
    watch = StragglerWatch()
    assert [watch.take(reports(number, 2), 3) for number in range(1, REPORTS + 1)] == [False, False, True]
    assert watch.announced is not None
    assert (watch.announced.ranks, watch.announced.step) == ((2,), 100)
    assert watch.announced.share == pytest.approx(0.5, abs=0.03)
    assert not watch.take(reports(5, None), 3)
    assert not watch.take(reports(6, 2), 3)
    assert [watch.take(reports(number, None), 3) for number in (7, 8, 9)] == [False, False, True]
    assert watch.announced is None


def test_reports_that_contradict_themselves_are_left_out() -> None:
    """Of a rank that does not exist, with fewer kinds than collectives, or with a group twice."""
    watch = StragglerWatch()
    for number in range(1, REPORTS + 1):
        first, *others = reports(number, 2)
        (group,) = first.arrivals.groups
        short = RankArrivals(first.arrivals.begin, (group._replace(kinds=(1,)),))
        twice = RankArrivals(first.arrivals.begin, (group, group._replace(spent=group.times)))
        foreign = first._replace(facts=first.facts._replace(rank=7))
        bad = [first._replace(arrivals=short), first._replace(arrivals=twice), foreign]
        assert not watch.take([*bad, *others], 3)
        assert watch.take([first], 3) == (number == REPORTS)


def test_another_rank_replaces_it() -> None:
    watch = StragglerWatch()
    for number in range(REPORTS):
        watch.take(reports(number, 1), 3)
    assert [watch.take(reports(REPORTS + number, 0), 3) for number in range(REPORTS)] == [False, False, True]
    assert watch.announced is not None
    assert (watch.announced.ranks, watch.announced.step) == ((0,), 100 * REPORTS)


def test_it_waits_for_all_ranks_and_for_long_steps() -> None:
    """Ranks report one by one, and two long steps per report are judged together."""
    watch = StragglerWatch()
    for number in range(1, 20):
        for report in reports(number, 1, steps=4):
            watch.take([report], 3)
    assert watch.announced is not None
    assert watch.announced.ranks == (1,)


def test_a_cost_that_changes_is_reported_again_with_the_first_step() -> None:
    watch = StragglerWatch()
    for number in range(1, REPORTS + 1):
        watch.take(reports(number, 1, extra=0.2), 3)
    changed = [watch.take(reports(number, 1, extra=1.0), 3) for number in range(4, 9)]
    assert changed.count(True) == 1
    assert watch.announced is not None
    assert watch.announced.step == 100
    assert watch.announced.share == pytest.approx(0.5, abs=0.03)


def test_a_cause_that_shows_later_is_reported() -> None:
    watch = StragglerWatch()
    for number in range(1, REPORTS + 1):
        plain = [report._replace(facts=RankFacts(report.facts.rank)) for report in reports(number, 1)]
        watch.take(plain, 3)
    assert watch.announced is not None
    before = watch.announced
    assert not before.differences
    assert watch.take(reports(REPORTS + 1, 1), 3)
    assert watch.announced == before._replace(differences=watch.announced.differences)
    assert [item.name for item in watch.announced.differences] == ["stolen"]
    assert not watch.take(reports(REPORTS + 2, 1), 3)


def test_the_sentence() -> None:
    facts = [RankFacts(0, stolen=0.01), RankFacts(1, stolen=0.012), RankFacts(3, stolen=0.4)]
    found = Straggler((3,), 0.18, 0.0, 1200, tuple(differences(facts, 3)))
    assert sentence(found, {3: "gpu4"}) == (
        "Rank 3 on gpu4 makes the others wait 18 % of each step since step 1,200; its CPU is 40 % stolen by "
        "other processes (others: 1 %)"
    )
    assert sentence(Straggler((2, 3), 0.5, 0.0, None, ()), {2: "gpu4", 3: "gpu4"}) == (
        "Ranks 2 and 3 on gpu4 make the others wait 50 % of each step"
    )


@pytest.mark.parametrize(
    ("own", "others", "text"),
    [
        (RankFacts(1, throttled=0.3), RankFacts(0, throttled=0.0), "CPU limit of its control group"),
        (RankFacts(1, steal=0.3), RankFacts(0, steal=0.0), "hypervisor takes 30 %"),
        (RankFacts(1, frequency=1200.0), RankFacts(0, frequency=2800.0), "at 1,200 MHz (others: 2,800 MHz)"),
        (RankFacts(1, loading=0.6), RankFacts(0, loading=0.02), "60 % of the time loading data (others: 2"),
        (RankFacts(1, faults=500.0), RankFacts(0, faults=1.0), "500 pages per second"),
        (RankFacts(1, places=(PlaceShare("a.py:9 step", 0.5), PlaceShare("a.py:3 augment", 0.5))),
         RankFacts(0, places=(PlaceShare("a.py:9 step", 0.6),)),
         "50 % of the time in a.py:3 augment (others: 0 %)"),
        (RankFacts(1, gpu_clock=1100.0), RankFacts(0, gpu_clock=1980.0), "GPU runs at 1,100 MHz"),
        (RankFacts(1, gpu_temperature=88.0), RankFacts(0, gpu_temperature=60.0), "88 °C (others: 60 °C)"),
        (RankFacts(1, gpu_power_limit=400.0), RankFacts(0, gpu_power_limit=700.0), "power limit is 400 W"),
        (RankFacts(1, pcie_width=4.0), RankFacts(0, pcie_width=16.0), "4 PCIe lanes (others: 16)"),
    ],
)  # fmt: skip
def test_what_differs(own: RankFacts, others: RankFacts, text: str) -> None:
    assert text in differences([own, others], 1)[0].sentence
    assert differences([own._replace(rank=0), own], 1) == []
    assert differences([others, others._replace(rank=1)], 1) == []


def test_the_leader_judges_all_nodes_by_its_own_clock() -> None:
    """A follower whose clock is 3 s ahead; its events travel as JSON."""
    gang_view, told = Stragglers(), []
    for number in range(REPORTS):
        for node, ranks in (("a", (0, 1)), ("b", (2,))):
            ahead = 3 * SECOND if node == "b" else 0
            own = tuple(
                report._replace(arrivals=report.arrivals._replace(begin=report.arrivals.begin + ahead))
                for report in reports(number, 2)
                if report.facts.rank in ranks
            )
            event = event_from_json(to_json(events.Arrived(node, 1, own)))
            assert isinstance(event, events.Arrived)
            if node == "b":
                assert not on_our_clock(event, None).reports
                event = on_our_clock(event, Offset(3.0, 0.001))
            told += gang_view.arrived(event, ("a", "a", "b"))
    assert len(told) == 1
    assert isinstance(told[0], commands.AnnounceStraggler)
    assert told[0].ranks == (2,)
    assert told[0].detail.startswith("Rank 2 on b makes the others wait 51 % of each step since step 0; ")
    assert told[0].differs == ("its CPU is 40 % stolen by other processes (others: 1 %)",)
