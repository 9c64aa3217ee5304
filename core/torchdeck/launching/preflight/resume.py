"""Check that the checkpoint from which a run shall resume exists and is complete."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from torchdeck.config.schema import RunConfig
from torchdeck.plan.check import Check, failed, ok, warning


def check_resume(config: RunConfig, node: str) -> Iterator[Check]:
    """Check the checkpoint named by checkpoint.resume; for `auto`, the content of a folder that the config
    names.
    """
    resume = config.checkpoint.resume
    if resume == "never":
        return
    if resume == "auto":
        directory = config.checkpoint.directory
        # the check of folders reports a file in its place
        if directory is not None and config.run.recipe is not None and not Path(directory).is_file():
            yield _auto(Path(directory), node)
        return
    path = Path(resume)
    if not path.exists():
        yield _failed(f"checkpoint {path} does not exist", node)
    else:
        yield _ours(path, node)


def _ours(path: Path, node: str) -> Check:
    from torchdeck.contract.checkpoints.listing import list_checkpoints
    from torchdeck.contract.checkpoints.manifest import CheckpointError, read_manifest

    try:
        manifest = read_manifest(path)
    except CheckpointError as error:
        inside = [info.path.name for info in list_checkpoints(path) if info.complete] if path.is_dir() else []
        if inside:
            return _failed(
                f"{path} holds checkpoints and is none", node, f"name one of them, such as {inside[-1]}"
            )
        return _failed(str(error), node)
    for name, entry in manifest.files_here.items():
        file = path / name
        if not file.is_file():
            return _failed(f"checkpoint {path} is not whole: {name} is missing", node)
        if file.stat().st_size != entry.size:
            return _failed(
                f"checkpoint {path} is damaged: {name} has not the {entry.size} bytes it should", node
            )
    return ok("resume", node, f"continues from step {manifest.step} in {path}")


def _auto(directory: Path, node: str) -> Check:
    from torchdeck.contract.checkpoints.listing import list_checkpoints
    from torchdeck.contract.checkpoints.manifest import CheckpointError

    try:
        found = list_checkpoints(directory)
    except CheckpointError as error:
        return _failed(str(error), node)
    complete = [info for info in found if info.complete]
    if complete:
        return ok("resume", node, f"continues from step {complete[-1].step} in {complete[-1].path}")
    if found:
        return warning(
            "resume",
            node,
            f"{directory} holds no complete checkpoint ({found[-1].why})",
            "training starts from the beginning",
        )
    return ok("resume", node, f"there is no checkpoint in {directory} yet")


def _failed(what: str, node: str, fix: str = "") -> Check:
    return failed("resume", node, what, fix or 'correct checkpoint.resume, or set it to "auto" or "never"')
