"""Checkpoints on a run's nodes: verified there, or copied here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchdeck.contract.refusal import Refusal
from torchdeck.launching.pull.checkpoints import Verified, verify_on_nodes
from torchdeck.launching.pull.fetching import NotWholeError
from torchdeck.launching.pull.result_files import find_checkpoints, pull_checkpoints, sources_of
from torchdeck.launching.pull.script_checkpoints import place_on, pull_script_checkpoints
from torchdeck.use_cases.pull import Transfer
from torchdeck.use_cases.torch_process import SILENCE, TorchProcessError, ask_torch
from torchdeck.use_cases.ui import Ui

if TYPE_CHECKING:
    from torchdeck.contract.layout import RunLayout
    from torchdeck.contract.plan.launch_plan import LaunchPlan
    from torchdeck.launching.pull.result_files import Sources
    from torchdeck.nodes.probe.remote_files import RemoteSoundness
    from torchdeck.runs.folders.checkpoints import ScriptCheckpoint


__all__ = [
    "Verified",
    "bring_checkpoint",
    "bring_script_checkpoint",
    "script_soundness_there",
    "verify_there",
]


def verify_there(
    layout: RunLayout,
    which: str,
    ui: Ui,
    transfer: AbstractContextManager[Transfer],
    here: Collection[str] = (),
) -> list[Verified]:
    """Hash checkpoints in place, on their nodes.

    Args:
        layout: of the run.
        which: a step, a name, `latest` or `all`.
        ui: the front end.
        transfer: entered while they are read.
        here: names of those that need not be looked at, as they lie here.

    Raises:
        Refusal: a node does not answer, or there is no such checkpoint.
        OSError: this machine's own files cannot be read.
    """
    with _sources(layout, ui) as (plan, sources), transfer as told:
        found = find_checkpoints(sources, plan, layout.root.name, which)
        return [verify_on_nodes(each, told) for each in found if each.name not in here]


def bring_checkpoint(
    layout: RunLayout, which: str, ui: Ui, transfer: AbstractContextManager[Transfer]
) -> Path:
    """Bring a checkpoint into the run's directory; its folder. Arguments are those of `verify_there`.

    Raises:
        Refusal: a node does not answer, there is no such checkpoint, or not all of it.
        OSError: it cannot be written.
    """
    with _sources(layout, ui) as (plan, sources), transfer as told:
        pulled = list(pull_checkpoints(sources, plan, layout.root.name, which, layout.checkpoints, told))
    if not pulled:
        raise NotWholeError("the run's nodes have no checkpoint")
    return Path(pulled[-1].path)


def script_soundness_there(
    layout: RunLayout, found: Sequence[ScriptCheckpoint], ui: Ui
) -> list[RemoteSoundness]:
    """Read checkpoints of a script whole on the nodes that have them; what is wrong with each.

    Raises:
        Refusal: a node does not answer.
    """
    with _sources(layout, ui) as (_, sources):
        return [place_on(sources, each.node)[0].checkpoint_soundness(each.saved.path) for each in found]


def bring_script_checkpoint(
    layout: RunLayout, found: ScriptCheckpoint, ui: Ui, transfer: AbstractContextManager[Transfer]
) -> Path:
    """Bring a checkpoint of a script into the run's directory; its path.

    Raises:
        Refusal: its node does not answer, or it no longer exists.
        OSError: it cannot be written.
    """
    with _sources(layout, ui) as (_, sources), transfer as told:
        (pulled,) = pull_script_checkpoints(layout, sources, [found], layout.checkpoints, told)
    return Path(pulled.path)


@contextmanager
def _sources(layout: RunLayout, ui: Ui) -> Iterator[tuple[LaunchPlan, Sources]]:
    from torchdeck.contract.atomic import read_json
    from torchdeck.contract.plan.launch_plan import LaunchPlan

    plan = LaunchPlan.from_json(read_json(layout.plan))
    with sources_of(layout, plan, ui.connector(layout.home.root)) as sources:
        if not sources.places:
            raise NotWholeError("no node of the run answers", "; ".join(sources.refused.values()))
        yield plan, sources


# Exports and converts in a process that has torch.

_TOOL = "torchdeck.distributed.exchange.tool"


class ExchangeFailedError(Refusal):
    """Nothing was written; the message has the reason."""

    page = "checkpoints#inspect-verify-convert"


def exchange_in_process(
    request: Mapping[str, Any],
    interpreter: str,
    progress: Callable[[str, int, int], None],
    silence: float = SILENCE,
) -> dict[str, Any]:
    """Return the answer of `torchdeck.distributed.exchange.tool` to `request`.

    There is no limit on the total time, only on the time without output.

    Args:
        request: the source and the target.
        interpreter: one that has torch.
        progress: called with the current work, the amount done, and the total (0: unknown); an exception from
            it ends the process and is raised here.
        silence: seconds without output.

    Raises:
        ExchangeFailedError: it reports failure, ends without an answer, or hangs.
    """
    try:
        return ask_torch(_TOOL, request, interpreter, progress=progress, silence=silence)
    except TorchProcessError as error:
        raise ExchangeFailedError(str(error)) from None


def export_request(source: Path, target: Path) -> dict[str, Any]:
    """Return a request to export a checkpoint's weights as saved, as safetensors and JSON in a new folder.

    Args:
        source: the checkpoint's folder.
        target: the folder to create.
    """
    return {
        "source": str(source.absolute()),
        "target": str(target.absolute()),
        "to": "export",
        "force": False,
        "max_file": 5_000_000_000,
        "dtype": None,
        "optimizer": False,
        "ema": False,
        "trust": False,
        "ranks": None,
    }
