"""A program's arguments: the folders it writes to, and the number of its steps.

Read from its command line, from the YAML, JSON, TOML or Python files named there, and from variables. Nothing
is executed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, takewhile
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
_OPENED = re.compile(r"^\s{0,64}(?P<name>[\w.-]{1,128})\s{0,8}:$")
"""A YAML key whose items are on the lines below."""
_ITEM = re.compile(r"^\s{0,64}- {1,8}(?P<value>[^\s:]{1,256})$")
_LISTS = frozenset(("lora_target_modules", "target_modules", "fsdp"))
"""Flags that take several words."""
_DEEPSPEED_FILES = frozenset(("deepspeed", "deepspeed_config", "deepspeed_config_file"))
_CONFIG_FLAGS = frozenset((*_DEEPSPEED_FILES, "config", "config_file"))
_CONFIG_FIRST = ("axolotl", "llamafactory")
"""Packages whose programs take a config file as an argument without a flag."""
_COMMENT = re.compile(r"\s#.*$")


class Named(NamedTuple):
    """A value, and by what it was given."""

    value: str
    origin: str
    """For a person: `--max_steps`, or `max_steps in sft.yaml`."""
    file: str = ""
    """Name of its config file; empty for an argument."""


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
        if _matches(name, _FOLDERS) and len(folders) < MOST_FOLDERS and named.value != "true":
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


def named_values(
    command: Sequence[str], working_dir: Path, defaults: Path | None = None
) -> list[tuple[str, Named]]:
    """Return everything that the command of a rank names, as (name, value): arguments, then config files.

    The last of repeated arguments counts, as argparse and Hydra have it.

    Args:
        command: interpreter, script or module, arguments.
        working_dir: of the ranks; relative paths begin there.
        defaults: config file that the program reads without naming it; it counts least.
    """
    last = {name.lower().replace("-", "_"): (name, named) for name, named in _given(command)}
    given = list(last.values())
    files = [*_configs(command, working_dir), *(() if defaults is None else (defaults,))]
    for path in files:  # grows: a file may name DeepSpeed's
        inside = list(_in_config(path))
        given += [(name, Named(value, f"{name} in {path.name}", path.name)) for name, value in inside]
        files += [
            file
            for name, value in inside
            if _matches(name, _DEEPSPEED_FILES) and value.endswith(".json")
            if (file := _absolute(value, working_dir)) not in files and len(files) < MOST_CONFIGS
        ]
    return given


def missing_configs(
    command: Sequence[str], given: Sequence[tuple[str, Named]], working_dir: Path
) -> Iterator[str]:
    """Yield each config file that is named and does not exist, as a sentence.

    Args:
        command: interpreter, script or module, arguments.
        given: values that the command names.
        working_dir: of the ranks, on this machine; nothing is known of a folder that is not here.
    """
    if not working_dir.is_dir():
        return
    named = [(each.value, f"named by {each.origin}") for name, each in given if _matches(name, _CONFIG_FLAGS)]
    if any(word.partition(".")[0] in _CONFIG_FIRST for word in command[:3]):
        named += [
            (word, "named by the arguments")
            for before, word in pairwise(command[2:])
            if not before.startswith("-") and "=" not in word
        ]
    for value, by in named:
        own = value.endswith(_CONFIGS) and not value.startswith(("/", "~", "-")) and "://" not in value
        if own and not ("\0" in value or "$" in value) and not (working_dir / value).exists():
            yield f"{value}, {by}, does not exist in {working_dir}"


def _given(command: Sequence[str]) -> Iterator[tuple[str, Named]]:
    """Yield `--name value`, `--name=value` and `group.name=value` as (name, value); a bare `--name` is
    `true`.
    """
    for number, word in enumerate(command):
        flag, equals, value = word.partition("=")
        name = flag.lstrip("-+~")
        if equals and name and " " not in name:
            yield name, Named(_plain(value), flag)
        elif word.startswith("--") and name:
            words = list(takewhile(lambda later: not later.startswith("--"), command[number + 1 :]))
            if not _matches(name, _LISTS):
                words = words[:1]
            yield name, Named(_plain(" ".join(words)) if words else "true", flag)


def _configs(command: Sequence[str], working_dir: Path) -> list[Path]:
    """Return the config files that the command names; the program itself is none."""
    found: list[tuple[str, Path]] = []
    script = next((word for word in command[1:] if word.endswith(".py") or word == "-m"), None)
    for before, word in pairwise(command):
        flag, _, name = word.partition("=") if word.startswith("-") else (before, "", word)
        if word != script and name.endswith(_CONFIGS) and len(name) < TEXT_LIMIT and "\0" not in name:
            key = flag.lstrip("-") if flag.startswith("--") else ""
            if _matches(key, _DEEPSPEED_FILES):
                found = [each for each in found if each[0] != key]
            # of the files of a repeated flag the last counts most
            at = next((number for number, each in enumerate(found) if key and each[0] == key), len(found))
            found.insert(at, (key, _absolute(name, working_dir)))
    return [path for _, path in found][:MOST_CONFIGS]


def _in_config(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (name, value) of a config file's plain values, whatever group they are in."""
    try:
        content = read_bounded(path, CONFIG_LIMIT)
        if path.suffix == ".json":
            yield from _in_object(parse_json(content, limit=CONFIG_LIMIT), "")
            return
    except (OSError, UnreadableFileError, JsonError):
        return
    group, key, items = "", "", list[str]()
    for whole in (*content.decode("utf-8", "replace").splitlines(), ""):
        line = _COMMENT.sub("", whole).rstrip()
        item = _ITEM.match(line)
        if item and key:
            items.append(_plain(item["value"]))
            continue
        if items:
            yield group + key, " ".join(items)[:TEXT_LIMIT]
        opened = _OPENED.match(line)
        key, items = opened["name"] if opened else "", []
        header = re.fullmatch(r"\s*\[([\w.-]{1,128})\]\s*", line)
        if header:
            group = header[1] + "."
        match = _LINE.match(line.rstrip(","))
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
        elif isinstance(inner, list) and inner and all(isinstance(item, (str, int)) for item in inner):
            yield group + name, " ".join(map(str, inner))[:TEXT_LIMIT]


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
