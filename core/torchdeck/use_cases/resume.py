"""Continue a run that is over: in its own directory, or as a new run on other nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from torchdeck.contract.refusal import Refusal
from torchdeck.use_cases.start import MissingSecrets, missing_secrets
from torchdeck.use_cases.ui import Ui, logins_of

if TYPE_CHECKING:
    from torchdeck.agent.processes.detached_process import DetachedProcess
    from torchdeck.contract.layout import RunLayout
    from torchdeck.runs.view import RunView
    from torchdeck.use_cases.start import StartRequest


class SecretsWantedError(Refusal):
    """Secrets of a run have no value, and may be given.

    Attributes:
        missing: which, and whether a keyring could keep them.
    """

    def __init__(self, error: Refusal, missing: MissingSecrets) -> None:
        super().__init__(error.what, error.why, error.fix, page=error.page)
        self.missing = missing


def resume(
    layout: RunLayout,
    origin: str,
    ui: Ui,
    arguments: Sequence[str] = (),
    secrets: Mapping[str, str] | None = None,
) -> DetachedProcess:
    """Continue the run from its newest complete checkpoint; its controller.

    Args:
        layout: of the run.
        origin: who asks: `terminal`, `window`, `api`.
        ui: the front end.
        arguments: with which a script continues; empty: as known.
        secrets: values of secrets that no variable has.

    Raises:
        SecretsWantedError: a secret has no value.
        Refusal: it cannot be resumed.
    """
    from torchdeck.launching.taking_over import LacksSecretsError
    from torchdeck.launching.taking_over import resume as begin_again

    try:
        controller = begin_again(layout, origin, logins_of(layout, ui), ui.note, arguments, secrets)
    except LacksSecretsError as error:
        raise SecretsWantedError(error, missing_secrets(error.names, layout.home.root)) from error
    except OSError as error:
        raise Refusal(f"{layout.root} cannot be read or written", error.strerror or error) from error
    ui.adopt(controller)
    return controller


def keep_arguments(layout: RunLayout, arguments: Sequence[str]) -> str:
    """Write the arguments with which a run's script continues into the run file that it was started from.

    Returns:
        Why they were not written, as a sentence; empty if they were.
    """
    from torchdeck.config.sources import MAX_BYTES
    from torchdeck.config.toml.edit import EditError, set_value
    from torchdeck.contract.atomic import write_bytes
    from torchdeck.contract.bounded_file import read_bounded

    _, source, path = _run_file(layout)
    if not source:
        return "The arguments were not saved: the run was started without a run file."
    try:
        content = read_bounded(path, MAX_BYTES).decode("utf-8").replace("\r\n", "\n")
        text = set_value(content, ("run", "resume_args"), list(arguments))
        write_bytes(path, text.encode())
    except (OSError, ValueError, EditError) as error:
        return f"The arguments were not saved: {path}: {error}"
    return ""


def cloned(layout: RunLayout, overrides: Sequence[str] = (), arguments: Sequence[str] = ()) -> StartRequest:
    """Return the start of a new run with the run file of `layout`, from the beginning.

    Args:
        layout: of the run.
        overrides: overrides such as `training.lr=3e-4`.
        arguments: appended to those of its script or module.

    Raises:
        ConfigError: the overrides do not fit its run file.
        Refusal: its run file cannot be read, or it has no arguments.
    """
    from torchdeck.config.loader import load_config_text
    from torchdeck.config.toml.document import toml_value
    from torchdeck.runs.follower import read_run
    from torchdeck.runs.foreign import refuse_start
    from torchdeck.use_cases.start import StartRequest

    refuse_start(read_run(layout))
    text, source, where = _run_file(layout)
    loaded, said = load_config_text(text, where, overrides), list(overrides)
    if arguments:
        if loaded.config.run.recipe is not None:
            raise Refusal("a recipe takes no arguments", fix="set its options with --set")
        said.append(f"run.args={toml_value([*loaded.config.run.args, *arguments])}")
        loaded = load_config_text(text, where, said)
    return StartRequest(loaded, loaded.text, str(loaded.path) if source else "", tuple(said))


def _run_file(layout: RunLayout) -> tuple[str, str, Path]:
    """Text of a run's own run file, the file that it came from, and the path by which its paths resolve."""
    from torchdeck.runs.folders.origin import frozen_run_file

    try:
        frozen = frozen_run_file(layout)
    except (OSError, ValueError) as error:
        raise Refusal(f"{layout.config} cannot be read", error) from error
    return frozen.text, frozen.source, Path(frozen.source) if frozen.source else layout.root


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
    from torchdeck.runs.foreign import refuse_start
    from torchdeck.runs.run_state import RunState
    from torchdeck.use_cases.start import StartRequest

    refuse_start(view)
    if not view.is_over or view.state is RunState.SUCCEEDED:
        raise Refusal(f"run {view.id} is {view.state}: nothing to resume")
    if view.checkpoint is None:
        raise Refusal(f"run {view.id} ({view.state}) has no checkpoint to resume from")
    text, source, where = _run_file(layout)
    checkpoint = view.checkpoint.path
    on_nodes = f"distributed.nodes={toml_value(list(nodes))}"
    overrides = [on_nodes, f"checkpoint.resume={toml_value(checkpoint)}"]
    loaded = load_config_text(text, where, overrides)
    if loaded.config.checkpoint.replicas:
        # the newest may have been lost with a node, before it was copied
        overrides = [on_nodes, f"checkpoint.resume={toml_value(str(PurePath(checkpoint).parent))}"]
        loaded = load_config_text(text, where, overrides)
    return StartRequest(loaded, loaded.text, str(loaded.path) if source else "", tuple(overrides))
