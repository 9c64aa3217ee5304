"""Import of runs that other tools recorded: TensorBoard, wandb offline, trackio, Lightning, Hugging Face."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from torchdeck.contract.refusal import Refusal
from torchdeck.runs.home import torchdeck_home
from torchdeck.use_cases.elsewhere.imported_run import Imported, import_run, imported_before
from torchdeck.use_cases.elsewhere.old_runs import find_old_runs

__all__ = ["ImportRefusedError", "Imported", "import_runs"]
_KNOWN = (
    "event files of TensorBoard, run-*.wandb, trackio's *.db, Lightning's metrics.csv, trainer_state.json"
)


class ImportRefusedError(Refusal):
    """There is nothing to import; the message says where it was looked for."""

    is_usage = True


def import_runs(folder: Path, *, name: str = "", home: Path | None = None) -> Iterator[Imported]:
    """Import each run below a folder; yields each as soon as it is done.

    Args:
        folder: it and the folders in it are only read.
        name: beginning of the runs' names. Default: the folder's name.
        home: TORCHDECK_HOME. Default: the usual one.

    Raises:
        Refusal: there is no such folder, no run in it, or the home cannot be written.
    """
    folder = folder.expanduser().absolute()
    if not folder.is_dir():
        raise ImportRefusedError(f"there is no folder {folder}")
    folder = folder.resolve()
    if len(folder.parts) < 3:
        raise ImportRefusedError(f"{folder} is too wide to be searched", fix="name a folder with runs")
    found, problems = find_old_runs(folder)
    if not found:
        why = "; ".join(problems) or f"known are {_KNOWN}"
        raise ImportRefusedError(f"no runs were found in {folder}", why)
    target = torchdeck_home(home)
    before = imported_before(target)
    folders = {run.folder for run in found}
    for old in found:
        own = old.name(folder)
        shown = name + own[len(folder.name) :] if name and own.startswith(folder.name) else own
        try:
            content = old.content()
            earlier = before.get((str(old.folder), content), "")
            if earlier:
                yield Imported(shown, old.program, old.folder, None, f"it is run {earlier} already", earlier)
                continue
            yield import_run(old, shown, content, target, folders)
        except OSError as error:
            why = f"{error.filename or old.folder}: {error.strerror or error}"
            yield Imported(shown, old.program, old.folder, None, why)
    for problem in problems:
        yield Imported(folder.name, "trackio", folder, None, problem)
