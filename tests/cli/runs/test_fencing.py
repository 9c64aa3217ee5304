"""Who looks at a lost run starts its controller again, as long as its nodes may come back."""

from pathlib import Path

import pytest

from support.values.histories import controller_journal, event, running_run
from support.values.made_runs import make_run
from torchdeck.cli.main import main
from torchdeck.contract.layout import RunLayout
from torchdeck.nodes.inventory.file import inventory_path
from torchdeck.use_cases import attach

LOST = event("lost", 300.0, state="LOST", why="gone", resumable=False, checkpoint="", life=0, nodes=["gpu3"])
FENCED = event("fenced", 400.0, node="gpu3", life=1)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[RunLayout]:
    found = list[RunLayout]()
    monkeypatch.setattr(attach, "ensure_controller", found.append)
    return found


@pytest.mark.parametrize("command", [["list"], ["list", "--json"], ["show", "latest"]])
@pytest.mark.parametrize(
    ("node", "fenced", "starts"), [("gpu3", False, 1), ("gpu3", True, 0), ("other", False, 0)]
)
def test_it_is_started_for_a_node_that_may_come_back(
    torchdeck_home: Path,
    started: list[RunLayout],
    command: list[str],
    node: str,
    *,
    fenced: bool,
    starts: int,
) -> None:
    """Not for one that has answered, or was taken out of the node inventory."""
    layout = make_run(torchdeck_home, [*controller_journal(), LOST, *([FENCED] * fenced)], running_run())
    inventory_path(torchdeck_home).write_text(f'[nodes.{node}]\naddress = "10.0.0.1"\n')
    assert main(["runs", *command]) == 0
    assert started == [layout] * starts
