"""What is said of a run whose samples and memory were predicted, and what it has to be."""

from typing import Any

from support.cli.command import Command
from torchdeck.contract.layout import RunLayout


def audit_of(command: Command, run: RunLayout) -> dict[str, Any]:
    """What `runs show --json` says of prediction and measurement."""
    audit: dict[str, Any] = command.json("runs", "show", run.root.name)["audit"]
    return audit


def assert_exactly_once(audit: dict[str, Any], *, steps: int, samples: int, epochs: int) -> None:
    """Everything that counts was used as planned, and every whole epoch is the data set."""
    check = audit["samples"]
    assert check["defects"] == check["unknown"] == []
    assert check["equal"] is True
    assert (check["first_step"], check["last_step"]) == (1, steps)
    assert (check["samples"], check["epochs"]) == (samples, epochs)
    assert audit["steps"] == steps
    for rank in audit["ranks"]:
        assert rank["samples"] == rank["predicted_samples"]
        assert rank["memory_kind"] == "resident"
        assert rank["memory_bytes"] > 0
