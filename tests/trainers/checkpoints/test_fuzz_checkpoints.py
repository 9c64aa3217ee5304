"""Hostile checkpoints of trainers: their step, and whether they are whole, without unpickling."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import zipfile
from pathlib import Path

from hypothesis import strategies as st

from support.fuzz import hostile
from support.fuzz.fuzzing import read_all
from support.fuzz.reader_process import ReaderProcess
from torchdeck.trainers.checkpoints.checkpoint_kinds import TrainerCheckpoint
from torchdeck.trainers.checkpoints.checkpoint_search import content_of, find_checkpoints, look_at
from torchdeck.trainers.checkpoints.pickled_step import step_inside
from torchdeck.trainers.checkpoints.soundness import soundness_of

PART = b"\0\0name\0\0"
NAMES = (
    *("checkpoint-40/trainer_state.json", "checkpoint-40/config.json", "step-8/model.safetensors.index.json"),
    *("global_step7/x.pt", "latest", "latest_checkpointed_iteration.txt", "iter_0000004/x.pt"),
    *(
        "epoch_1/random_states_0.pkl",
        "ckpt.pt",
        "snapshot.pt",
        "epoch=1-step=9.ckpt",
        "model-step-3.safetensors",
    ),
    *(
        "dcp/.metadata",
        "dcp/__0_0.distcp",
        "iter-" + "9" * 200 + ".pt",
        "checkpoint-" + "9" * 200 + "/x.json",
    ),
)
STATE = {"global_step": 40, "log_history": [{"step": 1, "loss": 0.5}], "epoch": 1.0}
HEADER = {"w": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}, "__metadata__": {"format": "pt"}}


def archive(value: object, protocol: int = 2) -> bytes:
    """A file as torch.save writes it: an uncompressed zip file with a pickle."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        file.writestr("archive/data.pkl", pickle.dumps(value, protocol))
        file.writestr("archive/data/0", bytes(64))
    return content.getvalue()


def pickled(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", content)
    return file.getvalue()


def with_length(header: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header + bytes(4)


def check(found: TrainerCheckpoint | None) -> None:
    if found is not None:
        assert found.step is None or 0 <= found.step < 2**63
        json.dumps(found._asdict(), allow_nan=False)


def read_checkpoint(case: bytes, place: Path) -> None:
    """The case is a name, and a content that each file next to it has, too."""
    name, _, content = case.partition(PART)
    place = place / "c"
    for each in (*NAMES, os.fsdecode(name)):
        path = place / each
        if "\0" in each or ".." in path.parts or not path.is_relative_to(place):
            continue
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    for found in find_checkpoints([place]):
        check(found)
    for path in [place, *place.rglob("*")]:
        check(look_at(path))
        content_of(path)
        if look_at(path) is not None:
            assert all(soundness_of(path).problems)


def read_step(case: bytes, place: Path) -> None:
    path = place / "ckpt.pt"
    path.write_bytes(case)
    found = step_inside(path)
    assert found is None or 0 <= found < 2**63


SAVED = {"model": {"w": [1.5] * 4}, "iter_num": 5, "config": {"step": 3}, "global_step": 2**40}


def _pickles() -> st.SearchStrategy[bytes]:
    sound = [
        pickle.dumps({**SAVED, "step": step}, protocol) for protocol in (0, 2, 4) for step in (7, 2**999)
    ]
    endless = [b"(" * 100_000, b"I" + b"9" * 5000 + b"\n.", b"\x80\x02}X\x04\0\0\0step\x8b\xff\xff\xff\x7f."]
    return (st.sampled_from(sound).flatmap(hostile.damaged) | st.sampled_from([*sound, *endless])).map(
        pickled
    )


def test_checkpoints() -> None:
    names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)
    digits = st.builds(
        "{}{}{}".format, st.sampled_from(["checkpoint-", "step=", "iter"]), st.integers(0), st.just(".pt")
    )
    files = (
        hostile.documents(STATE)
        | hostile.documents(HEADER).map(with_length)
        | hostile.damaged(archive(SAVED))
        | _pickles()
        | st.binary(max_size=200)
    )
    case = st.tuples((st.sampled_from(NAMES) | names | digits).map(lambda text: text.encode()), files)
    read_all(read_checkpoint, case.map(PART.join))


def test_steps_inside() -> None:
    bomb = pickled(bytes(300 << 20))
    read_all(
        read_step, _pickles() | hostile.damaged(archive(SAVED)) | st.just(bomb) | st.binary(max_size=200)
    )


def test_a_member_that_ends_before_its_size(tmp_path: Path) -> None:
    """Its size in the archive's directory is more than what there is of it."""
    content = archive(SAVED)
    size = (64).to_bytes(4, "little")
    directory = content.index(b"PK\x01\x02")
    longer = content[:directory] + content[directory:].replace(size, (1 << 25).to_bytes(4, "little"))
    (tmp_path / "ckpt.pt").write_bytes(longer)
    assert longer != content
    assert soundness_of(tmp_path / "ckpt.pt").problems == ["ckpt.pt: it cannot be read: EOFError"]


def read_large(case: bytes, place: Path) -> None:
    """JSON of many small values, as many bytes as the case says, in each file that is parsed up to 32 MiB."""
    content = b"[" + b"{}," * (int(case) // 3) + b"0]"
    is_parsed = int(case) <= 32 << 20
    names = ("trainer_state.json", "x.json", "model-1.safetensors")
    state, other, weights = (place / "checkpoint-40" / name for name in names)
    state.parent.mkdir()
    state.write_bytes(b'{"global_step": 40, "log_history": ' + content + b"}")
    found = look_at(state.parent)
    assert found is not None
    assert bool(found.incomplete) == is_parsed
    state.unlink()
    other.write_bytes(content)
    assert len(soundness_of(other.parent).problems) == (2 if is_parsed else 1)
    other.unlink()
    weights.write_bytes(with_length(content))
    assert bool(soundness_of(weights).problems) == is_parsed


def test_large_files_fit_into_memory() -> None:
    with ReaderProcess(read_large) as process:
        process.read(b"%d" % (31 << 20))
        process.read(b"%d" % (90 << 20))
