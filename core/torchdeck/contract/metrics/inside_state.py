"""inside.json: which trainer a rank's callbacks were added to, and whether it saves when it is asked to stop.

One small JSON file per rank, replaced whole by the rank. Steps are in its progress file, values in its
metrics.
Standard library, Python 3.10.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchdeck.contract.atomic import read_json, write_json
from torchdeck.contract.layout import FORMAT_VERSION

LIMIT = 64 * 1024
"""Most bytes of the file."""
TEXT_LIMIT = 512
"""Most characters of a text in it."""
_MOST_FAILURES = 16


@dataclass(frozen=True)
class InsideState:
    """State of the callbacks in one rank."""

    trainer: str = ""
    """The program whose callbacks report, such as `Hugging Face Trainer`; empty before one is known."""
    counted: bool = False
    """Its steps are counted at the optimizer, and the program itself may count others."""
    saves_on_stop: bool = False
    """Whether it polls for the stop file now, and then saves and ends its training."""
    failures: tuple[str, ...] = ()
    """Why callbacks were switched off, one sentence each."""


def write_inside_state(path: Path, state: InsideState) -> None:
    """Replace the file.

    Raises:
        OSError: the old file is unchanged.
    """
    value: dict[str, Any] = {"v": FORMAT_VERSION, **dataclasses.asdict(state)}
    value["failures"] = [text[:TEXT_LIMIT] for text in state.failures[:_MOST_FAILURES]]
    write_json(path, value, durable=False)


def read_inside_state(path: Path) -> InsideState | None:
    """Return the state in the file; None if there is none, or it is damaged."""
    try:
        value = read_json(path, limit=LIMIT)
    except OSError:
        return None
    if not isinstance(value, dict) or value.get("v") != FORMAT_VERSION:
        return None
    trainer, failures = value.get("trainer"), value.get("failures")
    texts = failures if isinstance(failures, list) else []
    return InsideState(
        trainer=trainer[:TEXT_LIMIT] if isinstance(trainer, str) else "",
        counted=value.get("counted") is True,
        saves_on_stop=value.get("saves_on_stop") is True,
        failures=tuple(text[:TEXT_LIMIT] for text in texts[:_MOST_FAILURES] if isinstance(text, str)),
    )
