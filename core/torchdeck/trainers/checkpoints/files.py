"""Checkpoints that are single files."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import BinaryIO

from torchdeck.contract.bounded_file import UnreadableFileError, open_regular
from torchdeck.contract.bounded_json import parse_json
from torchdeck.trainers.checkpoints.checkpoint_kinds import CheckpointKind, TrainerCheckpoint

MIN_SIZE = 16 << 10
"""Bytes of a weight file; smaller ones with a number in their names are something else."""
_ENDINGS = (".pt", ".pth", ".ckpt", ".safetensors", ".bin")
_LIGHTNING = re.compile(
    r"(?:.*\bstep=0*(\d{1,18})(?:\D.*)?|last(?:-v\d+)?|hpc_ckpt_\d+)\.ckpt|(?:.*\bepoch=\d+.*)\.ckpt"
)
_STEP = re.compile(r"(?:steps?|iter(?:ation)?s?|it|global_step)[-_=]?0*(\d{1,18})(?!\d)", re.IGNORECASE)
_PART = re.compile(
    r"-of-\d+|rng_state|random_states|optim|scheduler|scaler|mp_rank|zero_pp_rank|training_args|shard",
    re.IGNORECASE,
)
_WEIGHT_WORDS = re.compile(r"model|weight|ckpt|checkpoint|state|epoch|step|iter", re.IGNORECASE)
_ZIP, _ZIP_END = b"PK\x03\x04", b"PK\x05\x06"
_ZIP_TAIL = 22 + 1024
"""Bytes from the end within which the end record of a zip file begins; torch writes no comment."""
_HEADER_LIMIT = 32 << 20
"""Bytes of a safetensors header that is parsed: some 200,000 tensors."""
_LONGEST_HEADER = 100_000_000
"""Bytes of the longest that the safetensors library reads."""


def file_checkpoint(path: Path, status: os.stat_result) -> TrainerCheckpoint | None:
    """Return the checkpoint that a file is by its name, complete or not; None if it is none."""
    if not path.name.endswith(_ENDINGS):
        return None
    found = _named(path.name)
    if found is None or (found[0] is CheckpointKind.WEIGHTS and status.st_size < MIN_SIZE):
        return None
    kind, step = found
    return TrainerCheckpoint(str(path), kind, step, status.st_mtime, file_problem(path))


def _named(name: str) -> tuple[CheckpointKind, int | None] | None:
    if name == "ckpt.pt":
        return CheckpointKind.NANOGPT, None
    if name == "snapshot.pt":
        return CheckpointKind.SNAPSHOT, None
    lightning = _LIGHTNING.fullmatch(name)
    if lightning is not None:
        return CheckpointKind.LIGHTNING, int(lightning.group(1)) if lightning.group(1) else None
    stem = name.rpartition(".")[0]
    is_weights = any(letter.isdigit() for letter in stem) and _PART.search(name) is None
    if not is_weights or (name.endswith(".bin") and _WEIGHT_WORDS.search(stem) is None):
        return None
    step = _STEP.search(stem)
    return CheckpointKind.WEIGHTS, int(step.group(1)) if step else None


def file_problem(path: Path) -> str:
    """Return why the file is not whole, as a clause; empty if it is, or if its format has no end mark."""
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(8) if size else b""  # of size 0, and not empty: files of /proc
            if path.name.endswith(".safetensors"):
                return "" if _safetensors_end(head, file, size) == size else "it is not whole yet"
            if head[:4] != _ZIP:
                return "" if head else "it is empty"
            file.seek(max(0, size - _ZIP_TAIL))
            return "" if _ZIP_END in file.read(_ZIP_TAIL) else "its end record is missing"
    except UnreadableFileError as error:
        return f"it {error.why}"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"


def _safetensors_end(head: bytes, file: BinaryIO, size: int) -> int | None:
    """Return the size that the header gives the file; None if there is no whole header."""
    length = int.from_bytes(head, "little")
    if len(head) < 8 or length > min(size - 8, _LONGEST_HEADER):
        return None
    if length > _HEADER_LIMIT:
        return size  # the sizes of so many tensors are not added up
    try:
        header = parse_json(file.read(length), limit=_HEADER_LIMIT)
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        return 8 + length + int(max(ends, default=0))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        return None
