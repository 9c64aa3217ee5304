"""Request of a sweep, and its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchdeck.contract.atomic import read_json, write_json
from torchdeck.contract.refusal import Refusal
from torchdeck.runs.replay import typed
from torchdeck.sweeps.goal import Goal
from torchdeck.sweeps.pruning import Pruner, Pruning
from torchdeck.sweeps.strategies import Strategy
from torchdeck.sweeps.swept_file import SweptFile

VERSION = 1


class SweepFileError(Refusal):
    """The file of a sweep is damaged, or from a newer Torchdeck."""

    is_usage = True


@dataclass(frozen=True)
class SweepRequest:
    """Request of a sweep."""

    file: SweptFile
    over: tuple[str, ...]
    """Parameters, as they were written."""
    strategy: Strategy
    trials: int
    goal: Goal
    pruning: Pruning | None = None
    seeds: int = 1
    """Runs of each trial, with seeds that follow each other."""
    seed: int = 0
    """Seed of the random strategy."""
    at_once: int = 1
    """Most runs at a time."""

    def to_json(self) -> dict[str, Any]:
        """Return its fields as plain values."""
        pruning = self.pruning
        return {
            "v": VERSION,
            "run_file": {
                "text": self.file.text,
                "path": str(self.file.path),
                "is_file": self.file.is_file,
                "overrides": list(self.file.overrides),
            },
            "over": list(self.over),
            "strategy": str(self.strategy),
            "trials": self.trials,
            "metric": self.goal.metric,
            "direction": self.goal.word,
            "prune": None
            if pruning is None
            else {"rule": str(pruning.rule), "after": pruning.after, "factor": pruning.factor},
            "seeds": self.seeds,
            "seed": self.seed,
            "at_once": self.at_once,
        }

    @classmethod
    def from_json(cls, value: Any) -> SweepRequest:
        """Return the request in a document. Raises ValueError."""
        if not isinstance(value, Mapping):
            raise TypeError("it is not a table")
        file, pruning = typed.mapping(value, "run_file"), value.get("prune")
        return cls(
            SweptFile(
                str(file["text"]), Path(file["path"]), bool(file["is_file"]), typed.texts(file, "overrides")
            ),
            typed.texts(value, "over"),
            Strategy(value["strategy"]),
            int(value["trials"]),
            Goal(str(value["metric"]), value["direction"] == "max"),
            None
            if pruning is None
            else Pruning(
                Pruner(pruning["rule"]), typed.whole(pruning, "after"), max(2, int(pruning["factor"]))
            ),
            max(1, int(value["seeds"])),
            int(value["seed"]),
            max(1, int(value["at_once"])),
        )


def write_request(path: Path, request: SweepRequest) -> None:
    """Write the file of a request at once. Raises OSError."""
    write_json(path, request.to_json())


def read_request(path: Path) -> SweepRequest:
    """Read the file of a request.

    Raises:
        SweepFileError: it is missing, damaged, or from a newer Torchdeck.
        OSError: it cannot be read.
    """
    value = read_json(path)
    if isinstance(value, Mapping) and (typed.whole(value, "v") or 0) > VERSION:
        raise SweepFileError(f"{path} was written by a newer Torchdeck", fix="update Torchdeck")
    try:
        return SweepRequest.from_json(value)
    except (ValueError, TypeError, KeyError) as error:
        raise SweepFileError(f"{path} is damaged", error) from error
