"""Run files to start from, shipped as resources: each a commented run.toml, some with a file beside it."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from importlib.resources.abc import Traversable

DEFAULT = "quickstart"


class UnknownPresetError(ValueError):
    """There is no preset of that name."""


def preset_names() -> list[str]:
    """Names of all presets, the default one first."""
    names = (
        entry.name.removesuffix(".toml") for entry in _folder().iterdir() if entry.name.endswith(".toml")
    )
    return sorted(names, key=lambda name: (name != DEFAULT, name))


def preset_text(name: str) -> str:
    """The run file of preset `name`.

    Raises:
        UnknownPresetError: there is none of that name.
    """
    if name not in preset_names():
        raise UnknownPresetError(f"there is no preset {name!r}; presets are {', '.join(preset_names())}")
    return (_folder() / f"{name}.toml").read_text(encoding="utf-8")


def preset_summary(name: str) -> str:
    """What the preset is, in one sentence: its first comment.

    Raises:
        UnknownPresetError: there is none of that name.
    """
    return preset_text(name).partition("\n")[0].lstrip("# ")


def preset_companions(name: str) -> dict[str, str]:
    """Files that belong beside the run file, name → text: the example recipe that it runs, where it runs one.

    Raises:
        UnknownPresetError: there is none of that name.
    """
    recipe = tomllib.loads(preset_text(name)).get("run", {}).get("recipe", "")
    if not recipe.endswith(".py"):
        return {}
    return {recipe: (_folder() / recipe).read_text(encoding="utf-8")}


def _folder() -> Traversable:
    return files("torchdeck_resources") / "presets"
