"""Run files to start from, shipped as resources: each a commented run.toml, some with a companion file."""

from __future__ import annotations

import tomllib

from torchdeck.config.starts.bundled_texts import BundleTexts
from torchdeck.contract.refusal import Refusal

DEFAULT = "quickstart"


class UnknownPresetError(Refusal, ValueError):
    """There is no preset of that name."""


_PRESETS = BundleTexts("preset", "presets", ".toml", UnknownPresetError, DEFAULT)


def preset_names() -> list[str]:
    """Return the names of all presets, the default one first."""
    return _PRESETS.names()


def preset_text(name: str) -> str:
    """Return the run file of preset `name`.

    Raises:
        UnknownPresetError: there is none of that name.
    """
    return _PRESETS.text(name)


def preset_summary(name: str) -> str:
    """Return what the preset is, in one sentence: its first comment.

    Raises:
        UnknownPresetError: there is none of that name.
    """
    return _PRESETS.first_line(name).lstrip("# ")


def preset_companions(name: str) -> dict[str, str]:
    """Return the companion files of the run file, name → text: the example recipe, if it runs one.

    Raises:
        UnknownPresetError: there is none of that name.
    """
    recipe = tomllib.loads(preset_text(name)).get("run", {}).get("recipe", "")
    if not recipe.endswith(".py"):
        return {}
    return {recipe: _PRESETS.beside(recipe)}
