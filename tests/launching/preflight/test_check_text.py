"""How a check reads where it stands alone, and below a heading with its node's name."""

import pytest

from torchdeck.nodes.probe.probe_session import ProbeError
from torchdeck.nodes.ssh.errors import UnreachableError
from torchdeck.plan.check import Check, failed, ok, warning


def test_a_node_is_named_where_a_check_stands_alone() -> None:
    """Else no one knows whose clock it is; this machine needs no name."""
    assert str(warning("clock", "gpu1", "its clock is 300.0 s ahead", "set it")) == (
        "node gpu1: its clock is 300.0 s ahead: set it"
    )
    assert str(ok("home", "localhost", "/h is writable")) == "/h is writable"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (UnreachableError("gpu1", "no one answers at 10.0.0.1"), "no one answers at 10.0.0.1"),
        (ProbeError("node gpu1 did not answer 'facts' within 15 s"), "did not answer 'facts' within 15 s"),
        (ProbeError("node gpu12: no"), "node gpu12: no"),
    ],
)
def test_the_name_is_said_once(error: Exception, said: str) -> None:
    """Errors name their node already; below a heading with the name it is left out, alone it stands once."""
    check: Check = failed("ssh", "gpu1", str(error), "look")
    assert check.what == said
    assert str(check) == f"node gpu1: {said}: look"
