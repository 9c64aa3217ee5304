"""Checkpoints on a run's nodes: verified there, or copied here."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from torchdeck.agent.processes.child_process import ChildProcess
from torchdeck.contract.package import FOLDER
from torchdeck.contract.refusal import Refusal
from torchdeck.launching.pull.checkpoints import Verified, verify_on_nodes
from torchdeck.launching.pull.fetching import NotWholeError
from torchdeck.launching.pull.result_files import find_checkpoints, pull_checkpoints, sources_of
from torchdeck.launching.pull.script_checkpoints import place_on, pull_script_checkpoints
from torchdeck.use_cases.pull import Transfer
from torchdeck.use_cases.ui import Ui

if TYPE_CHECKING:
    from torchdeck.contract.layout import RunLayout
    from torchdeck.contract.plan.launch_plan import LaunchPlan
    from torchdeck.launching.pull.result_files import Sources
    from torchdeck.runs.folders.checkpoints import ScriptCheckpoint


__all__ = [
    "Verified",
    "bring_checkpoint",
    "bring_script_checkpoint",
    "script_problems_there",
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


def script_problems_there(
    layout: RunLayout, found: Sequence[ScriptCheckpoint], ui: Ui
) -> list[tuple[str, ...]]:
    """Read checkpoints of a script whole on the nodes that have them; what is wrong with each.

    Raises:
        Refusal: a node does not answer.
    """
    with _sources(layout, ui) as (_, sources):
        return [place_on(sources, each.node)[0].checkpoint_problems(each.saved.path) for each in found]


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


# Runs the process that exports and converts checkpoints, follows its progress, and reads its answer.

SILENCE = 300.0
"""Seconds without output until it counts as hung: a disk may be slow, and tensors large."""
_LAST_WORDS = 10.0
"""Seconds that the process gets to remove partial output."""
_ENTRY = ("-m", "torchdeck.distributed.exchange.tool")


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
    with tempfile.TemporaryFile() as said, _started(interpreter, said) as process:
        process.send(json.dumps(request).encode() + b"\n")
        for line in _lines(process, silence):
            answer = _answer(line)
            if "done" in answer:
                done: dict[str, Any] = answer["done"]
                return done
            if "error" in answer:
                raise ExchangeFailedError(answer["error"])
            what, finished, total = answer["progress"]
            progress(what, finished, total)
        code = process.exit_code(_LAST_WORDS)
        said.seek(0)
        last = (said.read().decode(errors="replace").strip().splitlines() or ["it printed nothing"])[-1]
        raise ExchangeFailedError(f"{interpreter} ended with exit code {code}: {last[:300]}")


@contextmanager
def _started(interpreter: str, said: IO[bytes]) -> Iterator[ChildProcess]:
    """Yield the process; at the end it is asked to exit, and killed if it does not."""
    package = str(Path(FOLDER).parent)
    users_path = os.environ.get("PYTHONPATH", "")
    environment = {
        **os.environ,
        "PYTHONPATH": f"{package}:{users_path}" if users_path else package,
        "PYTHONSAFEPATH": "1",  # modules in its working directory are not imported
        "CUDA_VISIBLE_DEVICES": "",
    }
    try:
        process = ChildProcess(
            [interpreter, *_ENTRY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            env=environment,
        )
    except OSError as error:
        raise ExchangeFailedError(f"{interpreter} could not be started: {error.strerror}") from error
    try:
        yield process
    finally:
        process.end(grace=_LAST_WORDS)  # by the end of its input


def _lines(process: ChildProcess, silence: float) -> Iterator[bytes]:
    try:
        yield from process.lines(silence)
    except TimeoutError:
        raise ExchangeFailedError(f"no output for {silence:g} s: is the disk still there?") from None


def _answer(line: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(line)
        if isinstance(answer, dict) and answer.keys() & {"done", "error", "progress"}:
            return answer
    except ValueError:
        pass
    raise ExchangeFailedError(f"the process answered {line[:80]!r}, which is no answer")


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
