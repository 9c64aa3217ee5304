"""Continue a run that is over: in its own directory, or as a new run on other nodes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from torchdeck.contract.refusal import Refusal
from torchdeck.use_cases.logins import logins_of
from torchdeck.use_cases.ui import Ui

if TYPE_CHECKING:
    from torchdeck.agent.processes.detached_process import DetachedProcess
    from torchdeck.contract.layout import RunLayout
    from torchdeck.runs.view import RunView
    from torchdeck.use_cases.start import StartRequest


def resume(layout: RunLayout, origin: str, ui: Ui) -> DetachedProcess:
    """Continue the run from its newest complete checkpoint; its controller.

    Args:
        layout: of the run.
        origin: who asks: `terminal`, `window`, `api`.
        ui: the front end.

    Raises:
        Refusal: it cannot be resumed.
    """
    from torchdeck.launching.taking_over import resume as begin_again

    try:
        controller = begin_again(layout, origin, logins_of(layout, ui), ui.note)
    except OSError as error:
        raise Refusal(f"{layout.root} cannot be read or written", error.strerror or error) from error
    ui.adopt(controller)
    return controller


def resumed_elsewhere(layout: RunLayout, view: RunView, nodes: Sequence[str]) -> StartRequest:
    """Return the start that continues a run on other nodes.

    Args:
        layout: of the run.
        view: of the run.
        nodes: which must be able to read its checkpoints.

    Raises:
        ConfigError: its run file does not fit these nodes.
        Refusal: the run is not over, or there is no checkpoint.
    """
    from torchdeck.config.loader import load_config_text
    from torchdeck.config.toml.document import toml_value
    from torchdeck.runs.folders.origin import frozen_run_file
    from torchdeck.runs.state import RunState
    from torchdeck.use_cases.start import StartRequest

    if not view.is_over or view.state is RunState.SUCCEEDED:
        raise Refusal(f"run {view.id} is {view.state}: there is nothing to resume")
    if view.checkpoint is None:
        raise Refusal(f"run {view.id} ({view.state}) has no checkpoint to resume from")
    try:
        frozen = frozen_run_file(layout)
    except (OSError, ValueError) as error:
        raise Refusal(f"{layout.config} cannot be read", error) from error
    checkpoint = view.checkpoint.path
    where = Path(frozen.source) if frozen.source else layout.root
    on_nodes = f"distributed.nodes={toml_value(list(nodes))}"
    overrides = [on_nodes, f"checkpoint.resume={toml_value(checkpoint)}"]
    loaded = load_config_text(frozen.text, where, overrides)
    if loaded.config.checkpoint.replicas:
        # the newest may have been lost with a node, before it was copied
        overrides = [on_nodes, f"checkpoint.resume={toml_value(str(PurePath(checkpoint).parent))}"]
        loaded = load_config_text(frozen.text, where, overrides)
    return StartRequest(loaded, loaded.text, str(loaded.path) if frozen.source else "", tuple(overrides))
