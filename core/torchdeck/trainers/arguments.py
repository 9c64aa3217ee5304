"""A program's arguments: the folders it writes to, and the number of its steps.

Read from its command line, from the YAML, JSON, TOML or Python files named there, and from variables. Nothing
is executed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from torchdeck.contract.bounded_file import UnreadableFileError, read_bounded
from torchdeck.contract.bounded_json import JsonError, parse_json

CONFIG_LIMIT = 256 * 1024
"""Most bytes of a config file."""
MOST_CONFIGS = 8
MOST_FOLDERS = 16
TEXT_LIMIT = 4096

_FOLDERS = frozenset(
    (
        "output_dir",
        "output_directory",
        "output_folder",
        "out_dir",
        "outdir",
        "default_root_dir",
        "default_local_dir",
        "logging_dir",
        "log_dir",
        "logdir",
        "dump_folder",
        "save_dir",
        "save_folder",
        "save_path",
        "checkpoint_dir",
        "ckpt_dir",
        "exp_dir",
        "experiment_dir",
        "work_dir",
        "workdir",
        "run_dir",
        "results_dir",
        "tensorboard_dir",
        "tensorboard_log_dir",
        "tb_dir",
        "hydra.run.dir",
    )
)
_STEPS = frozenset(
    (
        "max_steps",
        "max_train_steps",
        "max_training_steps",
        "max_iters",
        "train_iters",
        "num_train_steps",
        "total_training_steps",
        "training.steps",
        "num_iterations",
    )
)
"""Names of the total of optimizer steps. `steps` alone, and epochs, are not: of what, is not certain."""
_CHECKPOINTS = frozenset(("resume_from_checkpoint",))
_VARIABLES = ("TENSORBOARD_LOGGING_DIR", "TENSORBOARD_DIR", "WANDB_DIR", "MLFLOW_TRACKING_URI")
_FILE_VARIABLES = ("VERL_FILE_LOGGER_PATH",)
_CONFIGS = (".yaml", ".yml", ".json", ".toml", ".py")
_LINE = re.compile(
    r"^\s{0,64}['\"]?(?P<name>[\w.-]{1,128})['\"]?\s{0,8}[:=]\s{0,8}(?P<value>[^\s#].{0,2048})$"
)
_COMMENT = re.compile(r"\s#.*$")


class Named(NamedTuple):
    """A value, and by what it was given."""

    value: str
    origin: str
    """For a person: `--max_steps`, or `max_steps in sft.yaml`."""


class Arguments(NamedTuple):
    """Folders and total named by the arguments of a program."""

    folders: tuple[Path, ...] = ()
    """Folders that it writes to, absolute; they need not exist yet."""
    total: int | None = None
    """Optimizer steps that it will do."""
    total_origin: str = ""
    checkpoint: Path | None = None
    """Checkpoint from which it is told to continue."""


def read_arguments(command: Sequence[str], working_dir: Path, environment: Mapping[str, str]) -> Arguments:
    """Return folders and total that the command of a rank names; arguments go before config files.

    Args:
        command: interpreter, script or module, arguments.
        working_dir: of the ranks; relative paths begin there.
        environment: variables that the run sets.
    """
    given = named_values(command, working_dir)
    folders: list[Path] = []
    total, origin, checkpoint = None, "", None
    for name, named in given:
        if _matches(name, _FOLDERS) and len(folders) < MOST_FOLDERS:
            folders.append(_absolute(named.value, working_dir))
        elif total is None and _matches(name, _STEPS) and re.fullmatch(r"[1-9]\d{0,11}", named.value):
            total, origin = int(named.value), named.origin
        elif checkpoint is None and _matches(name, _CHECKPOINTS) and "/" in named.value:
            checkpoint = _absolute(named.value, working_dir)
    folders += [
        _absolute(environment[name].removeprefix("file:"), working_dir)
        for name in _VARIABLES
        if environment.get(name) and "://" not in environment[name]
    ]
    folders += [
        _absolute(environment[name], working_dir).parent for name in _FILE_VARIABLES if environment.get(name)
    ]
    return Arguments(tuple(dict.fromkeys(folders)), total, origin, checkpoint)


def named_values(command: Sequence[str], working_dir: Path) -> list[tuple[str, Named]]:
    """Return everything that the command of a rank names, as (name, value): arguments, then config files.

    Args:
        command: interpreter, script or module, arguments.
        working_dir: of the ranks; relative paths begin there.
    """
    given = list(_given(command))
    for path in _configs(command, working_dir):
        given += [(name, Named(value, f"{name} in {path.name}")) for name, value in _in_config(path)]
    return given


def _given(command: Sequence[str]) -> Iterator[tuple[str, Named]]:
    """Yield `--name value`, `--name=value` and `group.name=value` as (name, value)."""
    for number, word in enumerate(command):
        flag, equals, value = word.partition("=")
        name = flag.lstrip("-+~")
        if equals and name and " " not in name:
            yield name, Named(_plain(value), flag)
        elif word.startswith("--") and number + 1 < len(command) and not command[number + 1].startswith("--"):
            yield name, Named(_plain(command[number + 1]), flag)


def _configs(command: Sequence[str], working_dir: Path) -> list[Path]:
    """Return the config files that the command names; the program itself is none."""
    found = []
    script = next((word for word in command[1:] if word.endswith(".py") or word == "-m"), None)
    for word in command[1:]:
        name = word.partition("=")[2] if word.startswith("-") else word
        if word != script and name.endswith(_CONFIGS) and len(name) < TEXT_LIMIT and "\0" not in name:
            found.append(_absolute(name, working_dir))
    return found[:MOST_CONFIGS]


def _in_config(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (name, value) of a config file's plain values, whatever group they are in."""
    try:
        content = read_bounded(path, CONFIG_LIMIT)
        if path.suffix == ".json":
            yield from _in_object(parse_json(content, limit=CONFIG_LIMIT), "")
            return
    except (OSError, UnreadableFileError, JsonError):
        return
    group = ""
    for line in content.decode("utf-8", "replace").splitlines():
        header = re.fullmatch(r"\s*\[([\w.-]{1,128})\]\s*", line)
        if header:
            group = header[1] + "."
        match = _LINE.match(_COMMENT.sub("", line).rstrip().rstrip(","))
        if match:
            yield group + match["name"], _plain(match["value"])


def _in_object(value: object, group: str) -> Iterator[tuple[str, str]]:
    if not isinstance(value, dict):
        return
    for name, inner in value.items():
        if isinstance(inner, dict):
            yield from _in_object(inner, f"{group}{name}.")
        elif isinstance(inner, (str, int, float)):
            yield group + name, str(inner)


def _matches(name: str, known: frozenset[str]) -> bool:
    """Return whether `--job.dump-folder` is `dump_folder`: by its last part, or its last two or three."""
    parts = name.lower().replace("-", "_").replace("/", ".").split(".")
    return any(".".join(parts[-count:]) in known for count in (1, 2, 3))


def _plain(value: str) -> str:
    return value.strip().strip("'\"")[:TEXT_LIMIT]


def _absolute(value: str, working_dir: Path) -> Path:
    path = Path(value.replace("\0", ""))
    try:
        return working_dir / path.expanduser()
    except RuntimeError:  # ~name of a user that does not exist
        return working_dir / path
