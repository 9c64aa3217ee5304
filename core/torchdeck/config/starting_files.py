"""Run files to begin with: a preset with its companion files, or a file for a script."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from torchdeck.contract.refusal import Refusal

if TYPE_CHECKING:
    from torchdeck.config.schema import RunConfig


@dataclass(frozen=True)
class BundleTexts:
    """Files of one folder of `torchdeck_resources` with the same suffix."""

    kind: str
    """Kind of the items, for people."""
    folder: str
    ending: str
    unknown: type[ValueError]
    """Raised for an unknown name."""
    default: str = ""
    """Name that comes first."""

    def names(self) -> list[str]:
        """Return all names, the default one first."""
        found = (entry.name for entry in self._place().iterdir())
        names = (name.removesuffix(self.ending) for name in found if name.endswith(self.ending))
        return sorted(names, key=lambda name: (name != self.default, name))

    def text(self, name: str) -> str:
        """Return the content of the file of `name`. Raises `unknown` if there is none."""
        if name not in self.names():
            known = ", ".join(self.names())
            raise self.unknown(f"there is no {self.kind} {name!r}; {self.kind}s are {known}")
        return self.beside(f"{name}{self.ending}")

    def first_line(self, name: str) -> str:
        """Return its own first line. Raises `unknown` if there is none."""
        return self.text(name).partition("\n")[0]

    def beside(self, file: str) -> str:
        """Return the content of `file` in the folder, whatever its extension."""
        return (self._place() / file).read_text(encoding="utf-8")

    def companions(self) -> list[str]:
        """Return the names of the Python files in the folder."""
        return sorted(entry.name for entry in self._place().iterdir() if entry.name.endswith(".py"))

    def _place(self) -> Traversable:
        return files("torchdeck_resources") / self.folder


DEFAULT_NAME = "run.toml"


def preset_files(preset: str, target: Path) -> dict[Path, str]:
    """Return the files of a preset written as `target`: path and text of each, the run file first.

    Raises:
        UnknownPresetError: there is none of that name.
    """
    companions = preset_companions(preset)
    return {
        target: named(preset_text(preset), target.name),
        **{target.parent / name: content for name, content in companions.items()},
    }


def named(text: str, name: str) -> str:
    """Put into the comments of `text` the name of the file it is written to, unless no comment can hold
    it.
    """
    if not name.isprintable():
        return text
    word = shlex.quote(name)
    lines = text.splitlines(keepends=True)
    return "".join(line.replace(DEFAULT_NAME, word) if line.startswith("#") else line for line in lines)


Remains = Literal["nothing", "plan only", "batch plan", "script", "files"]
_OF_FILES = frozenset({"image-folder", "hf-causal-lm"})
"""Recipes whose data or model is a folder of the user's."""


def what_remains(text: str) -> Remains:
    """Return what to do before a preset's run can start; `plan only`: its machines cannot be reached;
    `files`: name a folder of one's own.

    Args:
        text: a preset's text.
    """
    table = tomllib.loads(text)
    if "cluster" in table:
        return "plan only"
    if "batch_plan" in table.get("training", {}):
        return "batch plan"
    if table["run"].get("recipe") in _OF_FILES:
        return "files"
    script = table["run"].get("script")
    return "nothing" if script is None or script in _PRESETS.companions() else "script"


def script_text(script: Path, folder: Path) -> str:
    """Return a run file for `script`, made from the preset for scripts; its path is relative to `folder` if
    below it.

    Args:
        script: a Python file; absolute.
        folder: the future folder of the run file; absolute.
    """
    path = script.relative_to(folder) if script.is_relative_to(folder) else script
    text = preset_text("script").replace('name = "script"', f"name = {toml_string(_name(script))}", 1)
    # the preset's comment on a script's location is for one that is not known yet
    return text.replace(
        'script = "train.py"       # next to this file, or anywhere', f"script = {toml_string(str(path))}", 1
    )


def is_recipe(source: str) -> bool:
    """Return whether Python source defines a recipe, by its functions' names; it is not executed."""
    import ast

    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    return {"build_model", "build_data", "loss"} <= functions


def recipe_text(recipe: Path, folder: Path) -> str:
    """Return a run file for a recipe file; otherwise as `script_text`."""
    path = recipe.relative_to(folder) if recipe.is_relative_to(folder) else recipe
    return (
        "# Your own model, data and loss. [model] and [data] are handed to build_model and build_data.\n\n"
        f"name = {toml_string(_name(recipe))}\n\n[run]\nrecipe = {toml_string(str(path))}\n\n"
        "[training]\nsteps = 200\nmicrobatch = 32           # batch size per GPU (samples per rank)\n\n"
        '[distributed]\nstrategy = "ddp"          # or "fsdp", or "single"\n'
    )


def _name(file: Path) -> str:
    kept = "".join(letter for letter in file.stem if letter.isprintable() and letter not in "/\\").strip()
    return kept[:100] or "run"


# Bundled scripts that use the library by itself, as templates for the user's own.


class UnknownExampleError(Refusal, ValueError):
    """There is no example of that name."""


_EXAMPLES = BundleTexts("example", "examples", ".py", UnknownExampleError)


def example_names() -> list[str]:
    """Return the names of all examples: their file names without `.py`."""
    return _EXAMPLES.names()


def example_text(name: str) -> str:
    """Return the script of example `name`.

    Raises:
        UnknownExampleError: there is none of that name.
    """
    return _EXAMPLES.text(name)


def example_summary(name: str) -> str:
    """Return what the example shows, in one sentence: the first line of its docstring.

    Raises:
        UnknownExampleError: there is none of that name.
    """
    return _EXAMPLES.first_line(name).strip('"')


# Run files to start from, shipped as resources: each a commented run.toml, some with a companion file.


class UnknownPresetError(Refusal, ValueError):
    """There is no preset of that name."""


_PRESETS = BundleTexts("preset", "presets", ".toml", UnknownPresetError, "quickstart")


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
    """Return the companion files of the run file, name → text: the recipe or script that it runs, if bundled.

    Raises:
        UnknownPresetError: there is none of that name.
    """
    run = tomllib.loads(preset_text(name)).get("run", {})
    companion = run.get("recipe", run.get("script", ""))
    return {companion: _PRESETS.beside(companion)} if companion in _PRESETS.companions() else {}


# Run file written from a config: kept with a run that no file describes, to start it again.

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def run_file_table(config: RunConfig) -> dict[str, Any]:
    """Return every key of `config` that is not its default."""
    return config.model_dump(mode="json", exclude_defaults=True)


def run_file_text(table: Mapping[str, Any]) -> str:
    """Return `table` as TOML; a config has only text, numbers, booleans, lists of these, and tables."""
    return "\n".join(_table_lines(table, ())).lstrip("\n") + "\n"


def _table_lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    if path and (plain or not table):
        yield ""
        yield f"[{'.'.join(map(_key, path))}]"
    for key, value in plain.items():
        yield f"{_key(key)} = {_value(value)}"
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _table_lines(value, (*path, key))


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else toml_string(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return toml_string(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    return repr(value)


def toml_string(text: str) -> str:
    """Return a TOML basic string: JSON's escapes are TOML's, and DEL needs one there."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
