"""What the nodes of an attempt offer before it starts."""

import pytest

from torchdeck.agent.gang import commands, events
from torchdeck.agent.leader.prepare_phase import PreparePhase
from torchdeck.contract.run_states import StartReason

NODES = ("alpha", "beta", "gamma")


@pytest.mark.parametrize("name", ["../x", "a/b", "..", ".", "a\0b"])
def test_a_node_that_offers_a_folder_elsewhere_ends_the_attempt(name: str) -> None:
    """Else all nodes would make, fill and remove folders there."""
    made = PreparePhase(commands.LaunchAttempt(2, StartReason.RESTART), NODES)
    point = events.ResumePoint("own", name, 10**6, "s", parts=("p",), here=("p",))
    (failed,) = made.offered(events.Offered("beta", 2, None, (point,), ""))
    assert isinstance(failed, events.LaunchFailed)
    assert "none of a folder" in failed.why
