"""What a preview says of when training saves."""

import pytest

from support.values.machines import byte_gpt, node, plan
from torchdeck.cli.plan.terminal_views import checkpoint_lines, saving_times
from torchdeck.distributed.rank_settings import CheckpointSettings

AUTO = (
    "as often as one failure every 6 h requires, given the duration of a save (at most 3.5% of the time), "
    "written while training continues,"
)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "at a stop and at the end"),
        ({"every": 100}, "every 100 steps"),
        ({"every_epochs": 1}, "every epoch"),
        ({"every": 100, "every_epochs": 2}, "every 100 steps and every 2 epochs"),
        (
            {"auto": True, "mtbf": 6.0, "background": True},
            AUTO,
        ),
    ],
)
def test_when_training_saves(options: dict[str, object], said: str) -> None:
    """Steps, epochs, the rule of auto, and whether training continues meanwhile."""
    settings = CheckpointSettings(directory="somewhere", **options)  # type: ignore[arg-type]
    assert saving_times(settings) == said


@pytest.mark.parametrize(
    ("nodes", "replicas", "said"),
    [(3, 0, ""), (1, 1, ""), (3, 1, "another node keeps"), (3, 9, "2 other nodes keep")],
)
def test_how_many_copies_are_kept(nodes: int, replicas: int, said: str) -> None:
    """No more than there are other nodes."""
    names = [f"n{number}" for number in range(nodes)]
    asked = byte_gpt(distributed={"nodes": names}, checkpoint={"replicas": replicas})
    lines = checkpoint_lines(plan(asked, *map(node, names)))
    assert (len(lines) == 3) == bool(said)
    assert said in lines[-1]
