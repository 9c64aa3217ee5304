"""Settings of a script's training, read from its command, its config files and its variables; and its model,
from a config.json on this machine. Nothing is executed, and nothing is downloaded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from torchdeck.config.chosen_nodes import is_here_alone
from torchdeck.config.estimate import Estimate
from torchdeck.config.schema import RunConfig
from torchdeck.contract.bounded_file import UnreadableFileError, read_bounded
from torchdeck.contract.bounded_json import JsonError, parse_json
from torchdeck.plan.known import Known
from torchdeck.trainers.arguments import Named, missing_configs, named_values
from torchdeck.trainers.program_settings import ProgramSettings, program_settings

_LIMIT = 2**20
_CONFIG = "config.json"
_ACCELERATE = re.compile(
    r"-m accelerate\.commands\.launch( |$)|(-m accelerate\.commands\.accelerate_cli|accelerate) launch( |$)"
)
_WITHOUT_DEFAULTS = ("--config_file", "--config-file", "--cpu")
_TRL = re.compile(r"^\s*(?:from|import)\s+trl\b", re.MULTILINE)
_HUGGING_FACE = ("model_name_or_path", "base_model")
"""Arguments that always name a model of Hugging Face."""
_REPOSITORY = re.compile(r"[\w.-]{1,96}(?:/[\w.-]{1,96})?")


def settings_of_program(config: RunConfig) -> ProgramSettings | None:
    """Return what the arguments and config files of a script say; None for a recipe. Nothing is executed."""
    run = config.run
    if run.recipe is not None:
        return None
    command = ("python", run.script or "-m", *(() if run.module is None else (run.module,)), *run.args)
    folder = Path(run.working_dir or ".")
    defaults = accelerate_defaults(command, run.env) if is_here_alone(config) else None
    given = named_values(command, folder, defaults)
    missing = dict.fromkeys(missing_configs(command, given, folder))
    return program_settings(given, run.env, tuple(missing))


def accelerate_defaults(command: Sequence[str], environment: Mapping[str, str]) -> Path | None:
    """Return the file of `accelerate config` that `accelerate launch` reads on this machine; None if the
    command is another, names a file or is for CPUs.

    Args:
        command: interpreter, script or module, arguments.
        environment: variables that the run sets; others are this process's.
    """
    launch = " ".join(Path(word).name for word in command[1:4])
    if not _ACCELERATE.match(launch):
        return None
    options = takewhile(lambda word: not word.endswith(".py"), command[2:])
    if any(word.partition("=")[0] in _WITHOUT_DEFAULTS for word in options):
        return None
    variables = {**os.environ, **environment}
    cache = variables.get("XDG_CACHE_HOME", "~/.cache")
    home = variables.get("HF_HOME", f"{cache}/huggingface")
    try:
        path = Path(home).expanduser() / "accelerate" / "default_config.yaml"
        return path if path.is_file() else None
    except (OSError, RuntimeError, ValueError):  # ~name of a user that does not exist, or a null byte
        return None


def with_program(config: RunConfig, known: Known) -> Known:
    """Return `known` with the settings of a script, and with its model if its config.json is found."""
    settings = settings_of_program(config)
    known = replace(known, program=settings)
    wanted = config.limits.memory != "off" and config.run.launcher == "torchrun"
    if settings is None or settings.model is None or not wanted or config.estimate != Estimate():
        return known
    path = model_config(settings.model.value, config)
    if path is None:
        return replace(known, remarks=(*known.remarks, *_not_found(settings.model, config)))
    return _with_model(config, known, settings, path)


def _with_model(config: RunConfig, known: Known, settings: ProgramSettings, path: Path) -> Known:
    from torchdeck.plan.hugging_face.program_model import bf16_profile, program_models

    name = f"{path.parent.name}/{path.name}"
    try:
        values = _read(path)
        models = program_models(values, settings, name, trl=uses_trl(config))
        first = models[0]
        targets = "" if settings.lora_targets is None else settings.lora_targets.value
        fp32 = first.training.precision == "fp32"
        others = (bf16_profile(values, first, targets, name),) if fp32 else ()
    except (OSError, UnreadableFileError, JsonError, ValueError, OverflowError) as error:
        return replace(known, remarks=(*known.remarks, f"memory is not predicted from {name}: {error}"))
    return replace(known, models=models, profile=first.profile, others=others)


def _not_found(model: Named, config: RunConfig) -> Iterator[str]:
    """Yield why the memory of a model is not predicted; `--model` alone names other things, too."""
    if any(name in model.origin.replace("-", "_") for name in _HUGGING_FACE):
        folder = config.run.working_dir or "."
        yield (
            f"memory is not predicted: {model.value}, named by {model.origin}, is neither a folder with a "
            f"{_CONFIG} in {folder} nor in the Hugging Face cache of this machine"
        )


def _read(path: Path) -> dict[str, Any]:
    values = parse_json(read_bounded(path.resolve(), _LIMIT))
    if not isinstance(values, dict):
        raise ValueError("it holds no object")  # noqa: TRY004 - the file's fault, as other contents
    inner = values.get("text_config")
    return {**inner, "dtype": values.get("dtype")} if isinstance(inner, dict) else values


def model_config(model: str, config: RunConfig) -> Path | None:
    """Return the config.json of a model: of a local folder, or of a repository in the cache of Hugging Face;
    None if there is none on this machine.
    """
    if "\0" in model or len(model) > os.pathconf("/", "PC_PATH_MAX"):
        return None
    try:
        folder = Path(config.run.working_dir or ".") / Path(model).expanduser()
        if (folder / _CONFIG).is_file():
            return folder / _CONFIG
        return _cached(model, config.run.env) if _REPOSITORY.fullmatch(model) else None
    except (OSError, RuntimeError):  # RuntimeError: ~name of a user that does not exist
        return None


def _cached(repository: str, environment: dict[str, str]) -> Path | None:
    """Return the config.json of the main branch in the cache (`huggingface_hub`, `models--ORG--NAME`)."""
    variables = {**os.environ, **environment}
    home = variables.get("HF_HOME") or str(Path.home() / ".cache" / "huggingface")
    cache = Path(variables.get("HF_HUB_CACHE") or f"{home}/hub")
    folder = cache / f"models--{repository.replace('/', '--')}"
    revision = read_bounded(folder / "refs" / "main", 256).decode("ascii", "replace").strip()
    path = folder / "snapshots" / revision / _CONFIG
    return path if re.fullmatch(r"[0-9a-f]{40}", revision) and path.is_file() else None


def uses_trl(config: RunConfig) -> bool:
    """Return whether the trainer is TRL's, as far as the module's name or the script's imports show."""
    run = config.run
    if run.module is not None:
        return run.module.split(".")[0] == "trl"
    try:
        source = read_bounded(Path(run.script or ""), _LIMIT).decode("utf-8", "replace")
    except (OSError, UnreadableFileError):
        return False
    return _TRL.search(source) is not None
