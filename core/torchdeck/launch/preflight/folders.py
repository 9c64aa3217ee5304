"""Can the run write where it must: its home and its checkpoints; and is there room."""

from __future__ import annotations

import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from torchdeck.config.schema import RunConfig
from torchdeck.config.training import Training
from torchdeck.launch.preflight.check import Check, failed, ok, warning
from torchdeck.quantities import size
from torchdeck.runs.home import HomeError, check_private

_NEEDS_CARE = re.compile(r'[\x00-\x1f\x7f":\\]')
_BYTES_PER_PARAMETER = {"sgd": 4, "adam": 12, "adamw": 12}
"""Saved per parameter: fp32 weights, and Adam's two moments."""


def check_home(home: Path, node: str) -> Check:
    """Whether runs can be made below TORCHDECK_HOME, and nobody else can put files there."""
    if _NEEDS_CARE.search(str(home)) is not None:
        return failed(
            "home",
            node,
            f"the path {str(home)!r} holds a quote, colon, backslash or control character",
            "set TORCHDECK_HOME to a folder without",
        )
    if home.exists():
        try:
            check_private(home)
        except HomeError as error:
            return Check("home", "failed", node, str(error))
    return _writable("home", home, node, "set TORCHDECK_HOME to a folder you may write in")


def check_checkpoint_folder(directory: str | None, node: str) -> Iterator[Check]:
    """Whether checkpoints can be written to the folder that the config names; none when it names none."""
    if directory is None:
        return
    path = Path(directory)
    yield _writable(
        "checkpoint folder", path, node, "make it a folder you may write in, or change checkpoint.directory"
    )
    if path.is_dir() and path.stat().st_mode & stat.S_IWOTH:
        yield warning(
            "checkpoint folder",
            node,
            f"anybody may write in {path}, and so change what a run resumes from",
            f"`chmod o-w {path}`",
        )


def check_room(config: RunConfig, home: Path, node: str) -> Iterator[Check]:
    """Free space where runs and checkpoints go, against limits.min_free_disk and what checkpoints take."""
    estimate = checkpoint_bytes(config)
    places = [home]
    if config.checkpoint.directory is not None:
        places.append(Path(config.checkpoint.directory))
    for place in places:
        if _writable("", place, node, "").status == "failed":
            continue  # which is said already
        holds_checkpoints = place is places[-1]
        yield _room(config, place, estimate if holds_checkpoints else 0, node)


def checkpoint_bytes(config: RunConfig) -> int:
    """About what one checkpoint takes; 0 where the model is not ours to know."""
    if config.run.recipe != "byte-gpt":
        return 0
    return byte_gpt_parameters(config) * _bytes_per_parameter(config.training)


def byte_gpt_parameters(config: RunConfig) -> int:
    """Parameters of a byte-gpt: embeddings, 12 width² + 9 width a block, final norm, head."""
    model = config.model
    width, layers, context = int(model["width"]), int(model["layers"]), int(model["context"])
    block = 12 * width**2 + 9 * width
    vocabulary = int(model["vocabulary"])
    return (vocabulary + context) * width + layers * block + 2 * width + vocabulary * width


def _bytes_per_parameter(training: Training) -> int:
    momentum = 4 if training.optimizer == "sgd" and training.momentum > 0 else 0
    return _BYTES_PER_PARAMETER[training.optimizer] + momentum


def _room(config: RunConfig, place: Path, estimate: int, node: str) -> Check:
    existing = _nearest_existing(place)
    try:
        free = shutil.disk_usage(existing).free
    except OSError as error:
        return failed(
            "disk", node, f"free space of {existing} cannot be read: {error.strerror}", "mend the disk"
        )
    floor = config.limits.min_free_disk
    what = f"{size(free)} free at {existing}"
    # a new checkpoint is whole before an old one goes
    kept = estimate * (config.checkpoint.keep_last + 2)
    if free < floor + estimate:
        need = f"limits.min_free_disk of {size(floor)}"
        need += f" and a checkpoint of about {size(estimate)}" if estimate else ""
        return failed("disk", node, f"{what}, too little for {need}", "make room, or use another disk")
    if free < floor + kept:
        return warning(
            "disk",
            node,
            f"{what}, and checkpoints will take about {size(kept)}",
            "lower checkpoint.keep_last",
        )
    return ok("disk", node, what)


def _writable(name: str, path: Path, node: str, fix: str) -> Check:
    if path.exists() and not path.is_dir():
        return failed(name, node, f"{path} is not a folder", fix)
    existing = _nearest_existing(path)
    if not existing.is_dir():
        return failed(name, node, f"{path} cannot be made: {existing} is not a folder", fix)
    try:
        # really written: modes say nothing of the superuser, of quotas, or of a file system's own rules
        tempfile.TemporaryFile(dir=existing).close()
    except OSError as error:
        what = f"{path} is not writable" if existing == path else f"{path} cannot be made in {existing}"
        return failed(name, node, f"{what} ({error.strerror})", fix)
    return ok(name, node, f"{path} is writable")


def _nearest_existing(path: Path) -> Path:
    """`path`, or the folder nearest above it that is there."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path
