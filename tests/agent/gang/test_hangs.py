"""Late ranks of several nodes: one examination, one verdict."""

from __future__ import annotations

import dataclasses

import pytest

from support.agents.gang_story import RECIPE, Story
from support.doctor.evidence import elsewhere, waits
from torchdeck.agent.doctor.evidence import RankEvidence
from torchdeck.agent.gang import commands, events
from torchdeck.agent.gang.hangs import ANSWER_LIMIT, LATEST
from torchdeck.agent.gang.recovered_state import replay
from torchdeck.contract.journal import Event


class TwoNodes(Story):
    """Ranks 0 and 1, one on each node, that train."""

    def __init__(self, **policy: object) -> None:
        super().__init__(dataclasses.replace(RECIPE, **policy), ("a", "b"))  # type: ignore[arg-type] # its fields
        self.train()

    def late(self, node: str, *ranks: int) -> list[commands.Command]:
        return self.tell(events.RanksLate(node, 1, ranks))

    def examined(self, node: str, *evidence: RankEvidence, name: str = "1") -> list[commands.Command]:
        return self.tell(events.Examined(node, 1, name, evidence))


WAITS, ELSEWHERE = waits(0, of=2), elsewhere(1, of=2)


def announced(orders: list[commands.Command]) -> commands.AnnounceHang:
    (found,) = [command for command in orders if isinstance(command, commands.AnnounceHang)]
    return found


def test_one_verdict_for_all_nodes() -> None:
    """The node whose rank waits is late first; the other's rank is blamed, with its node, once."""
    story = TwoNodes()
    assert story.late("a", 0) == [commands.Examine("a", 1, "1"), commands.Examine("b", 1, "1")]
    assert story.late("b", 1) == []
    assert story.examined("a", WAITS) == []
    found = announced(story.examined("b", ELSEWHERE))
    assert (found.rank, found.kind, found.examination) == (1, "elsewhere", "1")
    assert found.place == "train.py:84 save_model"
    assert found.detail.startswith("Rank 1 on b is in train.py:84 save_model; rank 0 waits for it in all_red")
    assert story.tell(events.Tick(), after=500.0) == []
    assert story.late("a") == []
    assert story.late("b") == [commands.AnnounceHangOver((1,))]
    again = [commands.Examine("a", 1, "2"), commands.Examine("b", 1, "2")]
    assert story.late("a", 0) == again, "another one is seen, too"


def test_evidence_comes_before_anything_is_ended() -> None:
    """With on_hang = "stop" nothing is signalled until all nodes have written theirs."""
    story = TwoNodes(on_hang="stop")
    story.late("a", 0)
    assert story.examined("a", WAITS) == []
    told, stopping, *ended = story.examined("b", ELSEWHERE)
    assert isinstance(told, commands.AnnounceHang)
    assert isinstance(stopping, commands.AnnounceStopping)
    assert stopping.detail == told.detail
    assert ended == [commands.Terminate("a"), commands.Terminate("b")]


def test_a_node_that_does_not_answer_is_blamed_after_a_while() -> None:
    story = TwoNodes()
    story.late("a", 0)
    story.examined("a", WAITS)
    assert story.tell(events.Tick(), after=ANSWER_LIMIT / 2) == []
    found = announced(story.tell(events.Tick(), after=ANSWER_LIMIT))
    assert (found.rank, found.kind) == (1, "machine")


def test_a_rank_at_work_is_examined_again_later() -> None:
    """It is no hang; and neither is a run that was stopped as a whole, nor one that has moved meanwhile."""
    for first, second in (
        (WAITS, ELSEWHERE._replace(working=True)),
        (WAITS._replace(state="T"), ELSEWHERE._replace(state="T")),
        (WAITS, ELSEWHERE._replace(moved=True)),
        (WAITS._replace(still=1.0), ELSEWHERE._replace(still=1.0)),
    ):
        story = TwoNodes(on_hang="stop")
        story.late("a", 0)
        story.examined("a", first)
        assert story.examined("b", second) == []
        assert story.tell(events.Tick(), after=0.5) == []
        again = [commands.Examine("a", 1, "1"), commands.Examine("b", 1, "1")]
        assert story.tell(events.Tick(), after=LATEST) == again, "files of what was no hang are replaced"


def test_answers_to_an_earlier_question_are_ignored() -> None:
    story = TwoNodes()
    story.late("a", 0)
    assert story.examined("a", WAITS, name="0") == []
    assert story.examined("c", WAITS) == []
    assert story.examined("b", ELSEWHERE) == []


def test_a_run_that_is_being_stopped_is_not_examined() -> None:
    story = TwoNodes()
    story.exit(1, "b")
    assert not [command for command in story.late("a", 0) if isinstance(command, commands.Examine)]


def test_stacks_are_written_on_request() -> None:
    """Of a run that makes progress; nothing is ended, whatever the policy."""
    story = TwoNodes(on_hang="stop")
    story.tell(events.StacksAsked("r7"))
    assert story.tell(events.Tick()) == [commands.Examine("a", 1, "1"), commands.Examine("b", 1, "1")]
    moving = WAITS._replace(still=0.1, moved=True)
    assert story.examined("a", moving) == []
    (found,) = story.examined("b", ELSEWHERE._replace(still=0.1, moved=True))
    assert isinstance(found, commands.AnnounceExamined)
    assert (found.request, found.ranks, found.detail) == ("r7", (0, 1), "The ranks make progress.")
    assert story.tell(events.Tick(), after=500.0) == []


def test_profiles_are_recorded_on_request() -> None:
    """On all nodes, as each knows which ranks it has; not of ranks that are being ended."""
    story = TwoNodes()
    asked = events.ProfileAsked("1-profile-a", (0, 3), 5.0)
    assert story.tell(asked) == [
        commands.Profile("a", 1, "1-profile-a", (0, 3), 5.0),
        commands.Profile("b", 1, "1-profile-a", (0, 3), 5.0),
    ]
    story.exit(1, "b")
    assert story.tell(asked) == []


def test_stacks_of_a_known_hang_say_it_again() -> None:
    story = TwoNodes()
    story.late("a", 0)
    story.examined("a", WAITS)
    told = announced(story.examined("b", ELSEWHERE))
    story.tell(events.StacksAsked("r7"), events.Tick())
    story.examined("a", WAITS, name="2")
    (found,) = story.examined("b", ELSEWHERE, name="2")
    assert isinstance(found, commands.AnnounceExamined)
    assert found.detail == told.detail


@pytest.mark.parametrize("event", ["hang", "examined"])
def test_another_agent_keeps_the_evidence_of_the_one_before(event: str) -> None:
    """Its first examination has the next number, in the open attempt."""
    journal = [
        Event("attempt_started", 1.0, 0.0, {"attempt": 1}),
        Event(event, 2.0, 0.0, {"attempt": 1, "rank": None, "examination": "2"}),
    ]
    story = Story(RECIPE)
    story.gang.resume(replay(journal, 0), 0.0)
    story.tell(events.NodeReady("a"), events.RanksUp("a", 1), events.RankProgress(1, 0, 1))
    assert story.tell(events.RanksLate("a", 1, (0,))) == [commands.Examine("a", 1, "3")]
    again = [*journal, Event("attempt_started", 3.0, 0.0, {"attempt": 2})]
    assert replay(again, 0).examination == 0
