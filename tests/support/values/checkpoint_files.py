"""Checkpoints made of small files, without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from torchdeck.contract.checkpoints.manifest import FileEntry, Manifest, checkpoint_name
from torchdeck.contract.checkpoints.verification import hash_file
from torchdeck.distributed.checkpoints.checkpoint_directory import CheckpointDirectory

FILES = {"__0_0.distcp": b"weights" * 100, ".metadata": b"layout", "trainer.json": b"{}"}


def manifest_of(step: int, files: dict[str, FileEntry]) -> Manifest:
    return Manifest(
        step=step,
        world_size=1,
        strategy="single",
        run_id="test-run",
        attempt=1,
        created=1_700_000_000.5,
        seconds=0.25,
        position={"v": 1, "epoch": 0, "consumed": step, "step": step},
        model_fingerprint="f" * 64,
        files=files,
    )


def fill(folder: Path, step: int) -> Manifest:
    """Put files into a checkpoint's folder; the manifest that fits them."""
    for name, content in FILES.items():
        (folder / name).write_bytes(content + f" of step {step}".encode())
    return manifest_of(step, {name: hash_file(folder / name) for name in FILES})


def save(
    directory: Path, step: int, *, name: str | None = None, metrics: Mapping[str, float] | None = None
) -> Path:
    """A committed checkpoint, `step_<step>` unless `name` says otherwise."""
    name = name or checkpoint_name(step)
    owner = CheckpointDirectory(directory)
    directory.mkdir(parents=True, exist_ok=True)
    temporary = directory / f".tmp-{name}-1"
    owner.make_temporary(temporary)
    return owner.commit(temporary, name, replace(fill(temporary, step), metrics=metrics or {}))


def save_of(directory: Path, step: int, run_id: str = "run", node: str | None = None) -> Path:
    """A committed checkpoint of a run, on a node's own disk if it is named."""
    directory.mkdir(parents=True, exist_ok=True)
    owner, name = CheckpointDirectory(directory), checkpoint_name(step)
    temporary = directory / f".tmp-{name}-1"
    owner.make_temporary(temporary)
    manifest = replace(fill(temporary, step), run_id=run_id)
    if node is not None:
        files = {name: replace(entry, node=node) for name, entry in manifest.files.items()}
        manifest = replace(manifest, node=node, files=files)
    return owner.commit(temporary, name, manifest)


def flip(path: Path, offset: int, mask: int = 0xFF) -> None:
    """Change one byte of a file."""
    content = bytearray(path.read_bytes())
    content[offset % len(content)] ^= mask
    path.write_bytes(content)
