"""Expected ends of runs that hold GPUs, and the machines whose GPUs are asked for."""

from pathlib import Path

import pytest

from support.values.gpus import RUN, free_gpu, gpu_now
from support.values.run_entries import NOW, entry, live_view, over_view, progress, run_id
from support.values.run_homes import add_live_run, add_run
from torchdeck.nodes.gpus.gpu_now import RunHold
from torchdeck.nodes.inventory.names import NodeNamesError
from torchdeck.use_cases.nodes.gpu_watch import choose_gpu_nodes
from torchdeck.use_cases.nodes.gpus import HeldRuns, hold_of, holds_of
from torchdeck.use_cases.nodes.inventory import add_node
from torchdeck.use_cases.ui import QuietUi


def test_the_end_of_a_run_is_known_while_it_trains() -> None:
    view = live_view(RUN)
    assert hold_of(view, progress(eta=60.0), NOW) == RunHold(view.name, NOW + 60.0)
    assert hold_of(view, progress(eta=None), NOW).until is None
    assert hold_of(view, None, NOW).until is None
    assert hold_of(over_view(RUN), progress(eta=60.0), NOW).until is None


def test_only_active_runs_of_a_list_hold_gpus() -> None:
    live = entry(2, live_view(run_id(2)), progress=progress(eta=5.0))
    assert list(holds_of([entry(1), live, entry(3, None)], NOW)) == [run_id(2)]


def test_only_runs_of_this_home_that_hold_a_gpu_are_read(tmp_path: Path) -> None:
    """A node may name any run, and a path."""
    held, other = add_live_run(tmp_path, 1), add_run(tmp_path, 2)
    gpus = [gpu_now(lease=(name, "x"), index=at) for at, name in enumerate((held.root.name, RUN, "../runs"))]
    runs = HeldRuns(tmp_path)
    found = runs.look([*gpus, free_gpu()])
    assert list(found) == [held.root.name]
    assert found[held.root.name].until is None, "it has not reported a step"
    assert other.root.name not in runs._pollers


@pytest.mark.parametrize(
    ("asked", "names", "with_here"),
    [
        ([], ["a", "b"], True),
        (["localhost"], [], True),
        (["b", "localhost"], ["b"], True),
        (["b"], ["b"], False),
    ],
)
def test_this_machine_is_asked_by_default_and_by_name(
    tmp_path: Path, asked: list[str], names: list[str], with_here: bool
) -> None:
    for name in ("a", "b"):
        add_node(tmp_path, name, {"address": name})
    nodes = choose_gpu_nodes(asked, tmp_path, QuietUi())
    assert (list(nodes.chosen.entries), nodes.with_here) == (names, with_here)
    with pytest.raises(NodeNamesError):
        choose_gpu_nodes(["nowhere"], tmp_path, QuietUi())
