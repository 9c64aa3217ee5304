"""Paths of the user's code in a run: in its own copy, `@{code}`, instead of the original folder. Pure."""

from __future__ import annotations

import json
import posixpath
from dataclasses import replace
from functools import lru_cache
from typing import Any

from torchdeck.config.schema import RunConfig
from torchdeck.contract.file_names import text_of
from torchdeck.contract.plan.launch_plan import CodeTree, NodePlan
from torchdeck.contract.plan.slots import escape, fill, slot, split

VARIABLE = "TORCHDECK_CODE"
"""Variable in ranks: the copy of the working directory."""
IGNORE_FILE = ".torchdeckignore"
"""In a folder of code: names what is not copied, and, after `!`, what is copied anyway."""
RUNNER = "torchdeck/agent/processes/run_module.py"
_RECIPE, _PATH = "TORCHDECK_RECIPE", "PYTHONPATH"


def run_from_copy(nodes: tuple[NodePlan, ...], config: RunConfig, code: CodeTree) -> tuple[NodePlan, ...]:
    """Return `nodes` with script, recipe, module and module path pointing to the run's own copy.

    Paths outside the tree stay unchanged, and so does the working directory.
    """
    if not code.folder:
        return nodes
    here = config.run.working_dir or "."
    # thousands of nodes have the same texts
    recipe = lru_cache(4)(lambda text: _recipe(text, config.run.recipe or "", code))
    module_path = lru_cache(4)(lambda text: _module_path(text, code, here))

    def moved(node: NodePlan) -> NodePlan:
        env = {**node.env, VARIABLE: in_copy(code, here), _PATH: module_path(node.env[_PATH])}
        if _RECIPE in env:
            env[_RECIPE] = recipe(env[_RECIPE])
        return replace(node, command=_command(node.command, config, code, here), env=env)

    return tuple(moved(node) for node in nodes)


def where_it_lies(node: NodePlan, code: CodeTree) -> NodePlan:
    """Return `node` as it would be without a copy: with the user's own paths, for scripts that users run.

    If it starts in the copy (`starts_in_copy`) there are no such paths: slot `code` stays in it. A node
    with a working directory of its own is assumed to have the code around that.
    """
    if not code.folder:
        return node
    kept = starts_in_copy(node)
    folder = _folder_on(node, code)

    def own(text: str) -> str:
        return text if kept else _lying(text, folder)

    command, env = node.command, dict(node.env)
    if len(command) > 2 and command[2].endswith(f"/{RUNNER}"):
        if kept and command[3] != node.working_dir and _PATH in env:
            shipped, colon, rest = env[_PATH].partition(":")
            env[_PATH] = f"{shipped}:{command[3]}{colon}{rest}"
        command = (*command[:2], "-m", *command[4:])
    env = {name: own(value) for name, value in env.items() if name not in (VARIABLE, _RECIPE)}
    if _RECIPE in node.env:
        value = json.loads(node.env[_RECIPE])
        env[_RECIPE] = _dumped({**value, "recipe": own(value["recipe"])})
    return replace(node, command=tuple(map(own, command)), env=env)


def starts_in_copy(node: NodePlan) -> bool:
    """Return whether ranks of `node` start in the run's copy: the location of the user's code there is
    unknown.
    """
    return any(name == "code" for _, name in split(node.working_dir))


def _folder_on(node: NodePlan, code: CodeTree) -> str:
    """Return the folder on `node` that relates to its working directory as the user's code does to the user's
    own.
    """
    pieces = list(split(node.env.get(VARIABLE, "")))
    start = fill(node.working_dir, {}) if all(not name for _, name in split(node.working_dir)) else ""
    if not pieces or pieces[0][1] != "code" or not posixpath.isabs(start):
        return code.folder
    below = "".join(literal for literal, _ in pieces).strip("/")
    if posixpath.normpath(start) == posixpath.normpath(posixpath.join(code.folder, below)):
        return code.folder
    return posixpath.normpath(posixpath.join(start, posixpath.relpath(".", below or ".")))


def _lying(text: str, folder: str) -> str:
    """Return `text` with slot `code` replaced by `folder`."""
    return "".join(
        escape(folder if name == "code" else literal) if name in ("", "code") else slot(name)
        for literal, name in split(text)
    )


def in_copy(code: CodeTree, path: str) -> str:
    """Return `path` in the run's copy, with slots; `path` itself if it is not below the tree."""
    relative = _relative(code, path)
    if relative is None:
        return escape(path)
    return slot("code") if relative == "." else f"{slot('code')}/{escape(relative)}"


def is_copied(code: CodeTree, path: str) -> bool:
    """Return whether the file at `path` is in the run's copy."""
    relative = _relative(code, path)
    return relative is not None and text_of(relative) in code.files


def left_out_why(code: CodeTree, path: str) -> str | None:
    """Return why the file at `path`, or a folder that it is in, is not in the run's copy; None if the plan
    does not say.
    """
    relative = _relative(code, path) or ""
    while relative:
        why = code.left_out.get(text_of(relative))
        if why is not None:
            return why
        relative = posixpath.dirname(relative)
    return None


def _relative(code: CodeTree, path: str) -> str | None:
    relative = posixpath.relpath(posixpath.join(code.folder, path), code.folder)
    return None if relative.split("/", 1)[0] == ".." else relative


def _command(command: tuple[str, ...], config: RunConfig, code: CodeTree, here: str) -> tuple[str, ...]:
    """Return `python -u` and then a script, or `-m` and a module."""
    run = config.run
    if run.module is not None:
        return (*command[:2], f"{slot('shipped')}/{RUNNER}", in_copy(code, here), *command[3:])
    if run.script is not None and is_copied(code, run.script):
        return (*command[:2], in_copy(code, run.script), *command[3:])
    return command


def _recipe(settings: str, recipe: str, code: CodeTree) -> str:
    if not is_copied(code, recipe):
        return settings
    return _dumped({**json.loads(settings), "recipe": in_copy(code, recipe)})


def _dumped(value: dict[str, Any]) -> str:
    """Dump in the same format as `recipe_settings`."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _module_path(text: str, code: CodeTree, here: str) -> str:
    """Return PYTHONPATH with the user's folders replaced by those in the copy; ours comes first."""
    own = text.removesuffix(slot("node_path"))
    first, colon, rest = own.partition(":")
    if not colon:
        return text
    folders = [fill(folder, {}) for folder in rest.split(":")]
    # an empty entry is the working directory
    copied = ":".join((first, *(_entry(posixpath.join(here, folder), folder, code) for folder in folders)))
    return copied + text[len(own) :]


def _entry(place: str, written: str, code: CodeTree) -> str:
    relative = _relative(code, place)
    if relative is None:
        return escape(written)
    beginning = "" if relative == "." else text_of(f"{relative}/")
    held = any(name.startswith(beginning) for name in code.files)
    return in_copy(code, place) if held else escape(written)
