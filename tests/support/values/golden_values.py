"""A value of each small format; `python -m support.values.golden_values FOLDER` writes them as files.

FOLDER is a golden folder.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from torchdeck.contract.atomic import write_json
from torchdeck.contract.doctor.arrivals import GroupArrivals, RankArrivals, read_arrivals, write_arrivals
from torchdeck.contract.doctor.rank_heartbeat import RankHeartbeat, RankHeartbeatFile, read_rank_heartbeat
from torchdeck.contract.doctor.rank_profile import ProfileOrder, order_text, parse_order
from torchdeck.contract.layout import Home, RunLayout
from torchdeck.contract.metrics.inside_state import InsideState, read_inside_state, write_inside_state
from torchdeck.contract.metrics.script_state import Origin, ScriptState, read_script_state, write_script_state
from torchdeck.contract.run_states import RankPhase
from torchdeck.runs.folders.notes import Note, notes_document, read_notes
from torchdeck.runs.links import UP, Links, LinkState, read_links, write_links

FOLDER = "small"
"""Name of the folder with these files in a golden folder."""


class Format(NamedTuple):
    """One file, what it contains, and how this version reads and writes it."""

    name: str
    value: Any
    read: Callable[[Path], Any]
    write: Callable[[Path, Any], None]


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
)


def main() -> None:
    """Write all files into FOLDER/small."""
    folder = Path(sys.argv[1]) / FOLDER
    folder.mkdir()
    for each in FORMATS:
        each.write(folder / each.name, each.value)


if __name__ == "__main__":
    main()
