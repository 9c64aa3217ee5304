"""A value of each small format; `python -m support.values.golden_values FOLDER` writes them as files.

FOLDER is a golden folder.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from torchdeck.agent.snapshots.manifest import Entry, Manifest
from torchdeck.contract.atomic import read_json, write_json
from torchdeck.contract.doctor.arrivals import GroupArrivals, RankArrivals, read_arrivals, write_arrivals
from torchdeck.contract.doctor.rank_heartbeat import RankHeartbeat, RankHeartbeatFile, read_rank_heartbeat
from torchdeck.contract.doctor.rank_profile import KIND, ProfileOrder, Wanted, order_text, parse_order
from torchdeck.contract.layout import Home, RunLayout
from torchdeck.contract.metrics.inside_state import InsideState, read_inside_state, write_inside_state
from torchdeck.contract.metrics.media_format import (
    FRAME_BYTES,
    MediaHead,
    check_body,
    decode_file_header,
    decode_record,
    encode_record,
)
from torchdeck.contract.metrics.script_state import Origin, ScriptState, read_script_state, write_script_state
from torchdeck.contract.run_states import RankPhase
from torchdeck.launching.requests import Request, page_request, read_requests
from torchdeck.nodes.ssh.keyring_store import Keyring
from torchdeck.queue.entry import AfterRun, Condition, DeviceOptions, QueuedFile, Stage
from torchdeck.queue.entry import Entry as QueueEntry
from torchdeck.queue.queue_file import parse_queue, queue_bytes
from torchdeck.queue.scheduling.ask import Ask, Place
from torchdeck.queue.state import Queue, QueueLimits
from torchdeck.runs.folders.notes import Note, notes_document, read_notes
from torchdeck.runs.folders.verdicts import Verdict, keep_verdict, read_verdicts
from torchdeck.runs.links import UP, Links, LinkState, read_links, write_links
from torchdeck.runs.table.run_filter import RunFilter
from torchdeck.runs.table.views import TableView, read_views, views_document
from torchdeck.sweeps.goal import Goal
from torchdeck.sweeps.pruning import Pruner, Pruning
from torchdeck.sweeps.strategies import Strategy
from torchdeck.sweeps.sweep_request import SweepRequest, read_request, write_request
from torchdeck.sweeps.swept_file import SweptFile
from torchdeck.trust.trust_list import NodeScript, TrustContent
from torchdeck.trust.trusted_entry import Seen, Trusted
from torchdeck_app.settings.user_settings import Settings, read_settings

FOLDER = "small"
"""Name of the folder with these files in a golden folder."""


class Format(NamedTuple):
    """One file, what it contains, and how this version reads and writes it."""

    name: str
    value: Any
    read: Callable[[Path], Any]
    write: Callable[[Path, Any], object]


def _write_heartbeat(path: Path, value: RankHeartbeat) -> None:
    file = RankHeartbeatFile(path)
    file.write(value)
    file.close()


def _write_order(path: Path, value: ProfileOrder) -> None:
    path.write_text(order_text(value))


def _write_links(path: Path, value: Links) -> None:
    write_links(RunLayout(path.parent), value.nodes, value.time)


def _write_notes(path: Path, value: dict[str, Note]) -> None:
    write_json(path, notes_document(value))


def _read_request(path: Path) -> Request:
    (request,) = (each for each in read_requests(path.parent) if each.file_name == path.name)
    return request


def _write_verdict(path: Path, value: dict[Path, Verdict]) -> None:
    ((folder, verdict),) = value.items()
    with tempfile.TemporaryDirectory() as home:  # it leaves a lock
        keep_verdict(Path(home), folder, verdict)
        path.write_bytes(Home(Path(home)).verified.read_bytes())


_MEDIA_HEADER = b'{"torchdeck_media": 1, "pid": 4711, "created": 1795461170.5}\n'


def _read_media(path: Path) -> tuple[MediaHead, bytes]:
    content = path.read_bytes()
    begin = decode_file_header(content)
    assert begin is not None
    record = decode_record(content[begin : content.index(b"}", begin + FRAME_BYTES) + 1], begin)
    body = content[record.body_at : record.end]
    check_body(record, body)
    return record.head, body


def _write_media(path: Path, value: tuple[MediaHead, bytes]) -> None:
    path.write_bytes(_MEDIA_HEADER + encode_record(*value))


_QUEUED_FILE = QueuedFile("[run]\nscript = 'train.py'\n", "/srv/run.toml", "/srv", ("training.lr=1e-3",))
QUEUE = Queue(
    (
        QueueEntry(
            "q1",
            "baseline",
            _QUEUED_FILE,
            Ask(("tag:fast",), 2, 4, "H100", 80 * 2**30),
            added=1795461170.5,
            position=1,
            devices=DeviceOptions(4, "H100", 80 * 2**30, "tag:fast:2"),
            priority=2,
            user="ann",
            tags=("sweep",),
            limit=7200.0,
            expected=3600.0,
            stage=Stage.RUNNING,
            starts=1,
            places=(Place("gpu1", (0, 1, 2, 3)), Place("gpu2", (0, 1, 2, 3))),
            begun=1795461180.5,
            run="20261123T191246Z-golden-bb7c16",
        ),
        QueueEntry(
            "q3",
            "later",
            _QUEUED_FILE,
            Ask(("localhost",), 0, None, named=(1, "GPU-2"), or_cpu=True),
            added=1795461190.5,
            position=2,
            after=(AfterRun("q1", Condition.SUCCEEDED),),
            paused=True,
            note="it could not start",
        ),
    ),
    QueueLimits({"gpu1": 2}, 1, 4, {"sweep": 1}),
    4,
)

FORMATS = (
    Format(
        "script.json",
        ScriptState(
            step=40,
            total=1000,
            epoch=0.25,
            phase=RankPhase.TRAINING,
            rate=1.5,
            time=1795461170.5,
            origins={"step": Origin("stdout", "progress bar"), "total": Origin("arguments", "--max_steps")},
        ),
        read_script_state,
        write_script_state,
    ),
    Format(
        "inside.json",
        InsideState("Hugging Face Trainer", counted=True, saves_on_stop=True, failures=("no callback",)),
        read_inside_state,
        write_inside_state,
    ),
    Format(
        "rank_heartbeat",
        RankHeartbeat(4711, 81.25, 12, 11, 2, "collective", "train.py:84 step", 3, True, 12, 600.0),
        read_rank_heartbeat,
        _write_heartbeat,
    ),
    Format(
        "arrivals.json",
        RankArrivals(
            1795461170500000,
            (GroupArrivals("0", (7, 8), (10, 20), (1, 2), (5, 6)), GroupArrivals("1", (1,), (30,))),
        ),
        read_arrivals,
        write_arrivals,
    ),
    Format(
        "profile",
        ProfileOrder(Path("/home/ann/runs/r/attempts/1/profiles/17-profile-ab"), 2.5),
        lambda path: parse_order(path.read_text()),
        _write_order,
    ),
    Format(
        "links.json",
        Links(
            1795461170.5,
            {"n1": LinkState("n1", UP, 1795461100.0, 1795461170.0, clock_offset=0.5, agent_alive=True)},
        ),
        lambda path: read_links(RunLayout(path.parent)),
        _write_links,
    ),
    Format(
        "notes.json",
        {"20261123T191246Z-golden-bb7c16": Note(("baseline", "short"), "a first try")},
        lambda path: read_notes(Home(path.parent).root),
        _write_notes,
    ),
    Format(
        "views.json",
        {
            "long runs": TableView(
                RunFilter("loss < 2", frozenset({"failed"})), ("loss", "lr"), "loss", group="seed"
            )
        },
        lambda path: read_views(path.parent),
        lambda path, value: write_json(path, views_document(value)),
    ),
    Format(
        "queue.jsonl",
        QUEUE,
        lambda path: parse_queue(path.read_bytes(), path),
        lambda path, value: path.write_bytes(queue_bytes(value)),
    ),
    Format(
        "1795461170500000000-profile-1a2b3c4d.json",
        Request("1795461170500000000-profile-1a2b3c4d", KIND, "terminal", "", wanted=Wanted((0, 3), 2.5)),
        _read_request,
        lambda path, value: page_request(path.parent, value),
    ),
    Format(
        "code.json",
        Manifest((Entry("data", "-> ../data", 0), Entry("train.py", "ab" * 32 + " x", 1234))),
        lambda path: Manifest.from_bytes(path.read_bytes()),
        lambda path, value: path.write_bytes(value.to_bytes()),
    ),
    Format(
        "trusted.json",
        TrustContent(
            {"/srv/example": Trusted("/srv/example", Seen(1000, 0o755), {"train.py": Seen(1000, 0o644)})},
            {NodeScript("gpu1", "~/activate.sh"): "cd" * 32},
        ),
        lambda path: TrustContent.from_json(read_json(path)),
        lambda path, value: write_json(path, value.to_json()),
    ),
    Format(
        "verified.json",
        {Path("/srv/example/final"): Verdict(("rank_00001.pt is missing",), 1795461170.5, "ef" * 32, 2)},
        lambda path: read_verdicts(path.parent),
        _write_verdict,
    ),
    Format(
        "keyring.json",
        ["passphrase of /srv/example/key", "password of ann@10.0.0.1:22"],
        lambda path: Keyring(path.parent).names,
        lambda path, value: Keyring(path.parent)._write(set(value)),
    ),
    Format(
        "request.json",
        SweepRequest(
            SweptFile('[run]\nscript = "train.py"\n', Path("/srv/a/run.toml"), True, ("run.args=[]",)),
            ("training.lr=1e-4..1e-2:log",),
            Strategy.RANDOM,
            20,
            Goal("accuracy:best", is_high=True),
            Pruning(Pruner.ASHA, after=100),
            seeds=3,
            seed=7,
            at_once=2,
        ),
        read_request,
        write_request,
    ),
    Format(
        "settings.json",
        Settings("dark", ask_on_close=True, notify_on_desktop=False),
        lambda path: read_settings(read_json(path))[0],
        lambda path, value: path.write_text(value.to_text()),
    ),
    Format(
        "log-4711-1795461170-1a2b3c4d-0.media",
        (MediaHead("sample", "text", 40, 1795461170.5, "after 40 steps"), b"A small text."),
        _read_media,
        _write_media,
    ),
)


def main() -> None:
    """Write all files into FOLDER/small."""
    folder = Path(sys.argv[1]) / FOLDER
    folder.mkdir()
    for each in FORMATS:
        each.write(folder / each.name, each.value)


if __name__ == "__main__":
    main()
