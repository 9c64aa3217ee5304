"""Which file of which program a name is, and its reader."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from torchdeck.trainers.files.csv_file import CsvFile
from torchdeck.trainers.files.event_file import EventFile
from torchdeck.trainers.files.growing import FileReader
from torchdeck.trainers.files.json_lines import JsonLines, TitanLog
from torchdeck.trainers.files.mlflow_database import NAME as MLFLOW_DATABASE
from torchdeck.trainers.files.mlflow_database import MlflowDatabase
from torchdeck.trainers.files.mlflow_file import FOLDER, MlflowMetric
from torchdeck.trainers.files.trainer_state import NAME as TRAINER_STATE
from torchdeck.trainers.files.trainer_state import TrainerState
from torchdeck.trainers.files.wandb_file import WandbFile

_TABLES = frozenset(
    (
        "metrics.csv",
        "results.csv",
        "progress.csv",
        "train_log.csv",
        "training_log.csv",
        "log.csv",
        "history.csv",
    )
)
_LINES = frozenset(("trainer_log.jsonl", "logging.jsonl"))
_SUFFIX = ".jsonl"
_EVENTS = "events.out.tfevents."
_WANDB = re.compile(r"run-[\w-]{1,64}\.wandb")
_TITAN = re.compile(r"\w{1,64}\.global_rank_(?P<rank>\d{1,7})\.[\w-]{1,64}\.jsonl")


class Kind(NamedTuple):
    """A file that can be read."""

    origin: str
    """Its name for a person."""
    open: Callable[[Path, float, int], FileReader]
    """Makes its reader from the path, the time and the length at which the run began."""
    rank: int | None = None
    """The rank that writes it, if its name tells."""
    repeats: bool = False
    """It repeats what other files of its kind have: rows are known by their step."""
    is_certain: bool = True
    """False: only its content tells whether it has metrics."""


def kind_of(path: Path) -> Kind | None:
    """Return the kind of a file, by its name alone; None if it is not one with metrics."""
    name = path.name
    if name == TRAINER_STATE:
        return Kind(name, lambda path, since, _: TrainerState(path, since), repeats=True)
    if _EVENTS in name:
        return Kind("TensorBoard event file", lambda path, since, _: EventFile(path, since))
    if name in _TABLES:
        return Kind(name, lambda path, _, begin: CsvFile(path, begin))
    if _WANDB.fullmatch(name):
        return Kind("wandb offline run", lambda path, since, _: WandbFile(path, since))
    if name == MLFLOW_DATABASE:
        return Kind("MLflow database", lambda path, since, _: MlflowDatabase(path, since=since))
    if name.endswith(_SUFFIX):
        return _of_lines(path)
    return _of_mlflow(path) if FOLDER in path.parts[-4:-1] else None


def _of_lines(path: Path) -> Kind:
    titan = _TITAN.fullmatch(path.name)
    if titan and path.parent.name == "structured_logs":
        rank = int(titan["rank"])
        return Kind("torchtitan's structured log", lambda path, _, begin: TitanLog(path, begin), rank)
    certain = path.name in _LINES
    return Kind(path.name, lambda path, _, begin: JsonLines(path, begin), is_certain=certain)


def _of_mlflow(path: Path) -> Kind | None:
    """mlruns/EXPERIMENT/RUN/metrics/NAME; RUN has a meta.yaml."""
    parts = path.parts
    place = len(parts) - 2 - parts[-2::-1].index(FOLDER)
    name = "/".join(parts[place + 1 :])
    if not Path(*parts[:place], "meta.yaml").is_file():
        return None
    return Kind("MLflow folder", lambda path, since, _: MlflowMetric(path, name, since))
