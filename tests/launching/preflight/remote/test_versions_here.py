"""This machine among the nodes must have their torch and Python."""

from torchdeck.contract.inventory import InterpreterFacts
from torchdeck.launching.preflight.remote.nodes import check_interpreters


def test_this_machine_is_compared_with_the_nodes() -> None:
    """Another torch is refused; another patch level of Python is not."""
    same = InterpreterFacts("/a", python="3.11.7", torch="2.8.0")
    patched = InterpreterFacts("/b", python="3.11.9", torch="2.8.0")
    older = InterpreterFacts("/c", python="3.10.1", torch="2.7.0")
    fine = list(check_interpreters({"localhost": same, "n1": patched}))
    assert [(check.node, check.status) for check in fine] == [("localhost", "ok"), ("n1", "ok")] * 2
    found = list(check_interpreters({"localhost": same, "n1": older}))
    bad = [check for check in found if check.status == "failed"]
    assert [(check.node, check.name) for check in bad] == [("n1", "same torch"), ("n1", "same python")]
    assert str(bad[0]).startswith("node n1: torch is 2.7.0, and 2.8.0 on localhost")
    assert list(check_interpreters({"localhost": same})) == []
