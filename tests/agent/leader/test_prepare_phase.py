"""In which order the nodes of an attempt begin: the first one's torchrun has the store of all."""

import pytest

from torchdeck.agent.gang import commands as do
from torchdeck.agent.gang import events as on
from torchdeck.agent.leader.prepare_phase import PreparePhase
from torchdeck.contract.run_states import StartReason

NODES = ("alpha", "beta", "gamma")


@pytest.fixture
def prepare_phase() -> PreparePhase:
    """One for which every node has said what it can begin with."""
    made = PreparePhase(do.LaunchAttempt(2, StartReason.RESTART), NODES)
    for node in NODES:
        assert made.offered(on.Offered(node, 2, 29500 if node == "alpha" else None, (), "")) == []
    assert [launch.node for launch in made.chosen] == list(NODES)
    return made


def test_the_first_node_begins_and_the_others_once_its_torchrun_is_up(prepare_phase: PreparePhase) -> None:
    """Whoever else says that it is up, and an earlier attempt's torchrun, start nobody; and nobody twice."""
    assert prepare_phase.begin("alpha") == [prepare_phase.chosen[0]]
    assert prepare_phase.launched(on.AttemptLaunched("beta", 2)) == []
    assert prepare_phase.launched(on.AttemptLaunched("alpha", 1)) == []
    assert prepare_phase.launched(on.AttemptLaunched("alpha", 2)) == list(prepare_phase.chosen[1:])
    assert prepare_phase.launched(on.AttemptLaunched("alpha", 2)) == []


def test_all_begin_at_once_where_the_first_node_is_not_the_leads_own(prepare_phase: PreparePhase) -> None:
    """The leader's node was left out: another agent's word might be lost, and with it the start."""
    assert prepare_phase.begin("left out") == list(prepare_phase.chosen)
    assert prepare_phase.launched(on.AttemptLaunched("alpha", 2)) == []


def test_who_has_not_begun_never_does_once_the_attempt_is_given_up(prepare_phase: PreparePhase) -> None:
    """A stop, or the first node's failure, came in between."""
    prepare_phase.begin("alpha")
    prepare_phase.given_up = True
    assert prepare_phase.launched(on.AttemptLaunched("alpha", 2)) == []


@pytest.mark.parametrize("name", ["../x", "a/b", "..", ".", "a\0b"])
def test_a_node_that_offers_a_folder_elsewhere_ends_the_attempt(name: str) -> None:
    """Else all nodes would make, fill and remove folders there."""
    made = PreparePhase(do.LaunchAttempt(2, StartReason.RESTART), NODES)
    point = on.ResumePoint("own", name, 10**6, "s", parts=("p",), here=("p",))
    (failed,) = made.offered(on.Offered("beta", 2, None, (point,), ""))
    assert isinstance(failed, on.LaunchFailed)
    assert "none of a folder" in failed.why
