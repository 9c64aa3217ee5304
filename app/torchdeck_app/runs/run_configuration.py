"""Reads a run's configuration from its directory. Blocks: for workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from torchdeck.config.loader import load_config_text
from torchdeck.config.problems import ConfigError
from torchdeck.config.toml.document import parse
from torchdeck.config.toml.edit import set_value
from torchdeck.config.toml.merge import Difference, differences, leaves, same
from torchdeck.contract.layout import RunLayout
from torchdeck.runs.folders.origin import frozen_run_file
from torchdeck.runs.follower import read_run
from torchdeck.runs.foreign import NO_RUN_FILE


@dataclass(frozen=True)
class Configuration:
    """Configuration with which a run was started."""

    text: str
    """Its original run file, with overrides applied."""
    source: str
    """Path of the source; empty for a command line."""
    table: Mapping[str, Any]
    """Its settings, without defaults."""
    defaults: tuple[Difference, ...]
    """Its differences from the defaults."""
    problem: str = ""
    """Why it cannot be parsed as a whole; `table` then has the content of its own text."""


def read_configuration(layout: RunLayout) -> Configuration:
    """Read the configuration of a run; empty for one that Torchdeck did not start.

    Raises:
        OSError: its run file cannot be read.
        ValueError: it is not TOML (a frozen run file always is).
    """
    try:
        frozen = frozen_run_file(layout)
    except FileNotFoundError:
        if not read_run(layout).is_foreign:
            raise
        return Configuration(NO_RUN_FILE, "", {}, ())
    text, source = frozen.text, frozen.source
    own = parse(text)
    if not own:
        return Configuration(text, source, {}, ())
    where = Path(source) if source else layout.root
    try:
        loaded = load_config_text(text, where)
    except ConfigError as error:
        first = next(iter(error.problems), None)
        why = str(error) if first is None else f"{first.path}: {first.wrong}"
        return Configuration(text, source, own, differences({}, own), why)
    return Configuration(text, source, loaded.written, tuple(_against_defaults(loaded.config)))


def clone_text(layout: RunLayout, checkpoint: Path | None = None) -> tuple[str, str]:
    """Return the run's file for starting another run, and a name for the copy: the run's.

    Paths in it become absolute, because the edited file has no folder or a different one.

    Args:
        layout: layout of the run.
        checkpoint: the new run starts from this one.

    Raises:
        the errors of `read_configuration`.
    """
    frozen = frozen_run_file(layout)
    text, source = frozen.text, frozen.source
    text = _with_absolute_paths(text, Path(source)) if source else text
    if checkpoint is not None:
        text = set_value(text, ("checkpoint", "resume"), str(checkpoint))
    name = parse(text).get("name")
    return text, name if isinstance(name, str) and name else layout.root.name


def _with_absolute_paths(text: str, source: Path) -> str:
    """Return `text` with all relative paths resolved against the folder of `source`."""
    own = parse(text)
    base = own.get("extends")
    if isinstance(base, str):
        text = set_value(text, ("extends",), str(source.parent / base))
    try:
        config = load_config_text(text, source).config
    except ConfigError:
        return text  # the editor shows what is wrong
    for path, value in leaves(own):
        meant = _at(config, path)
        if isinstance(value, str) and isinstance(meant, str) and meant != value and Path(meant).is_absolute():
            text = set_value(text, path, meant)
    return text


def _at(config: Any, path: tuple[str, ...]) -> Any:
    """Return the value of a key; None if there is none."""
    for key in path:
        config = config.get(key) if isinstance(config, Mapping) else getattr(config, key, None)
    return config


def _against_defaults(model: BaseModel, path: tuple[str, ...] = ()) -> list[Difference]:
    """Return a config's differences from its fields' defaults; required fields have none and are left out."""
    found: list[Difference] = []
    for name, field in type(model).model_fields.items():
        value, here = getattr(model, name), (*path, name)
        if isinstance(value, BaseModel):
            found += _against_defaults(value, here)
        elif not field.is_required():
            default = field.get_default(call_default_factory=True, validated_data={})
            if not same(_plain(value), _plain(default)):
                found.append(Difference(here, _plain(default), _plain(value)))
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value
