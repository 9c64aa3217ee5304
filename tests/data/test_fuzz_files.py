"""Batch plans, positions, lengths and logs of samples that strangers wrote: read, or refused."""

import io
import json
from functools import partial
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from support.fuzz import hostile
from support.fuzz.fuzzing import read_all
from support.fuzz.refusals import refused
from torchdeck.data.batch_plan import BatchPlanError, build_batch_plan, load_batch_plan, save_batch_plan
from torchdeck.data.batch_plan.files.dataset_files import measure_dataset
from torchdeck.data.batch_plan.files.length_files import read_lengths
from torchdeck.data.checkpoint_position import CheckpointPosition
from torchdeck.data.order import PositionError
from torchdeck.data.sample_log import SampleLog, SampleLogError, SampleLogHeader, SampleLogWriter
from torchdeck.data.sampler import SamplerState

POSITION = {"v": 1, "epoch": 0, "microbatch_idx": 3, "global_step": 2}
STATE = {"v": 1, "position": {"v": 1, "epoch": 0, "offset": 0}, "total_samples": 9, "seed": 1}
STATE |= {"shuffle": True, "kind": "exactly_once", "world_size": None}
META = {
    "num_epochs": 1,
    "bucket_edges": [4],
    "overflow_max": 9,
    "token_budget": 10,
    "pad_policy": "pad_to_max",
}
LINE = {"samples": ["a", 1], "packs": None, "bucket_id": 0, "max_len": 4, "index": 0, "tokens": 5}
PART = b"\0\0part\0\0"


def plan_in(folder: Path) -> Path:
    save_batch_plan(build_batch_plan([3, 1, 4, 1, 5], token_budget=10), folder / "p")
    return folder / "p"


def read_columns(content: bytes, place: Path) -> None:
    """Cases are plan.json and what columns.bin begins with, over those of a sound plan."""
    folder = plan_in(place)
    said, _, columns = content.partition(PART)
    if said:
        value = json.loads((folder / "plan.json").read_bytes())
        try:
            value |= json.loads(said)
        except (ValueError, TypeError, RecursionError):
            (folder / "plan.json").write_bytes(said)
        else:
            (folder / "plan.json").write_text(json.dumps(value))
    whole = (folder / "columns.bin").read_bytes()
    (folder / "columns.bin").write_bytes((columns + whole[len(columns) :])[: len(whole)])
    refused(lambda: load_batch_plan(folder), BatchPlanError, OSError)
    refused(lambda: load_batch_plan(folder, verify=True), BatchPlanError, OSError)


def read_jsonl(content: bytes, place: Path) -> None:
    meta, _, lines = content.partition(PART)
    (place / "meta.json").write_bytes(meta or json.dumps(META).encode())
    (place / "epoch_0.jsonl").write_bytes(lines)
    refused(lambda: load_batch_plan(place), BatchPlanError, OSError)


def read_small(content: bytes, place: Path) -> None:
    path = place / "x.json"
    path.write_bytes(content)
    refused(lambda: CheckpointPosition.load(path), PositionError)
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return
    refused(lambda: SamplerState.from_json(value), PositionError)


def read_data(content: bytes, place: Path) -> None:
    for name in ("x.jsonl", "x.txt", "x.npy"):
        path = place / name
        path.write_bytes(content)
        refused(partial(read_lengths, path), BatchPlanError)
        refused(partial(measure_dataset, path), BatchPlanError)


def read_log(content: bytes, place: Path) -> None:
    path = place / "samples.log"
    path.write_bytes(content)

    def read() -> None:
        for record in SampleLog(path).records():
            assert record.counts.sum() == len(record.ids)

    refused(read, SampleLogError)


def test_any_batch_plan_in_columns() -> None:
    column = {"name": "epoch_0.tokens", "type": "<i4", "count": 3, "sha256": "0" * 64}
    sound = {"meta": {"size": 5, "bounds": [4]}, "columns": [column], "v": 1, "fingerprint": "x"}
    edits = hostile.documents(sound)
    read_all(read_columns, st.tuples(edits | st.just(b""), st.binary(max_size=80)).map(PART.join))


def test_any_batch_plan_in_lines() -> None:
    lines = st.lists(hostile.documents(LINE, {"epoch": 0, "num_microbatches": 1}), max_size=4).map(b"\n".join)
    read_all(read_jsonl, st.tuples(hostile.documents(META) | st.just(b""), lines).map(PART.join))


def test_any_position() -> None:
    read_all(read_small, hostile.documents(POSITION, STATE))


def test_any_lengths() -> None:
    file = io.BytesIO()
    np.save(file, np.arange(9))
    lines = st.lists(hostile.documents({"length": 3}, {"text": "x"}, {"input_ids": [1, 2]}), max_size=4)
    header = b"\x93NUMPY\x01\0\x76\0{'descr': '<i8', 'fortran_order': False, 'shape': (999999999999,), }"
    read_all(read_data, lines.map(b"\n".join) | hostile.damaged(file.getvalue()) | hostile.damaged(header))


def test_any_log_of_samples(tmp_path: Path) -> None:
    header = SampleLogHeader(size=1000, rank=0, world_size=1, start={"v": 1})
    writer = SampleLogWriter(tmp_path / "samples.log", header)
    writer.write(1, 0, 5.0, [np.arange(4), np.arange(3)])
    writer.write(2, 0, 5.0, [np.arange(9)])
    writer.close()
    content = (tmp_path / "samples.log").read_bytes()
    claims = content.partition(b"\n")[0] + b"\n"
    read_all(
        read_log, hostile.damaged(content) | hostile.damaged(claims) | hostile.documents(json.loads(claims))
    )
