"""`torchdeck init`: a commented run.toml to start from."""

from __future__ import annotations

import argparse
import shlex
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchdeck.cli.output import json_text

USAGE_ERROR = 2
DEFAULT_NAME = "run.toml"


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "init",
        help="write a commented run.toml from a preset, or an example script",
        description="Write a commented run.toml from a preset, or a script that uses the library by itself. "
        "Nothing is overwritten without --force.",
    )
    parser.add_argument("path", metavar="PATH", nargs="?", help=f"file or folder; default ./{DEFAULT_NAME}")
    parser.add_argument(
        "--preset", metavar="NAME", default="quickstart", help="default quickstart; see --list"
    )
    parser.add_argument("--example", metavar="NAME", help="write this script instead; see --list")
    parser.add_argument(
        "--list", action="store_true", help="list the presets and examples, and write nothing"
    )
    parser.add_argument("--force", action="store_true", help="overwrite existing files")
    parser.add_argument("--json", action="store_true", help="the presets, or the files written, as JSON")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Write the files; 2 when there is no such preset, one of them exists, or it cannot be written."""
    from torchdeck.config.starting_files import UnknownPresetError, preset_files

    if args.list:
        return _list(as_json=args.json)
    if args.example is not None:
        return _example(args)
    target = _target(args.path)
    try:
        contents = preset_files(args.preset, target)
    except UnknownPresetError as error:
        return _refuse(str(error))
    done = _write_all(contents, force=args.force)
    if done is not None:
        return _refuse(done)
    if args.json:
        sys.stdout.write(json_text({"preset": args.preset, "files": [str(path) for path in contents]}) + "\n")
    else:
        sys.stdout.write("".join(f"wrote {path}\n" for path in contents))
        own_recipe = len(contents) > 1 and "recipe" in tomllib.loads(contents[target])["run"]
        sys.stdout.write(_next(contents[target], target, trust=own_recipe))
    return 0


def _example(args: argparse.Namespace) -> int:
    from torchdeck.config import starting_files

    try:
        text = starting_files.example_text(args.example)
    except starting_files.UnknownExampleError as error:
        return _refuse(str(error))
    target = Path(args.path or ".").expanduser()
    if target.is_dir() or target.suffix != ".py":
        target /= f"{args.example}.py"
    done = _write_all({target: text}, force=args.force)
    if done is not None:
        return _refuse(done)
    if args.json:
        sys.stdout.write(json_text({"example": args.example, "files": [str(target)]}) + "\n")
    else:
        sys.stdout.write(f"wrote {target}\nnext: its first lines explain how to start it\n")
    return 0


def _write_all(contents: Mapping[Path, str], *, force: bool) -> str | None:
    """Write files; why not, as a sentence, where that cannot be."""
    existing = [str(path) for path in contents if path.exists()]
    if existing and not force:
        return f"{' and '.join(existing)} exists already; --force overwrites, another PATH does not"
    try:
        _write(contents)
    except OSError as error:
        return f"{error.filename or next(iter(contents))} cannot be written: {error.strerror or error}"
    return None


def _next(text: str, target: Path, *, trust: bool) -> str:
    """Return what to do with the file; machines that it describes are planned for and not started."""
    from torchdeck.config.starting_files import what_remains

    path = shlex.quote(str(target))
    remains = what_remains(text)
    if remains == "plan only":
        return f"next: torchdeck plan {path}\n"
    command = f"torchdeck --no-gui{' --trust' if trust else ''} {path}"
    before = {
        "batch plan": "build its batch plan as described at its top, then ",
        "script": "name your script in it (run.script), then ",
        "files": "name your folder in it, as described at its top, then ",
    }
    return f"next: {before.get(remains, '')}{command}\n"


def _list(*, as_json: bool) -> int:
    from torchdeck.config import starting_files

    runs = {name: starting_files.preset_summary(name) for name in starting_files.preset_names()}
    scripts = {name: starting_files.example_summary(name) for name in starting_files.example_names()}
    if as_json:
        rows = [{"name": name, "summary": text, "kind": "preset"} for name, text in runs.items()]
        rows += [{"name": name, "summary": text, "kind": "example"} for name, text in scripts.items()]
        sys.stdout.write(json_text(rows, indent=2) + "\n")
        return 0
    width = max(map(len, (*runs, *scripts)))
    sys.stdout.write("run files (--preset NAME)\n")
    sys.stdout.writelines(f"  {name:<{width}}  {text}\n" for name, text in runs.items())
    sys.stdout.write("scripts that use the library by itself (--example NAME)\n")
    sys.stdout.writelines(f"  {name:<{width}}  {text}\n" for name, text in scripts.items())
    return 0


def _target(path: str | None) -> Path:
    """The run file to write: PATH, or run.toml in it if it is a folder or does not end in .toml."""
    target = Path(path or ".").expanduser()
    return target / DEFAULT_NAME if target.is_dir() or target.suffix != ".toml" else target


def _write(contents: Mapping[Path, str]) -> None:
    from torchdeck.contract.atomic import write_bytes

    for path, text in contents.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, text.encode("utf-8"))


def _refuse(message: str) -> int:
    sys.stderr.write(f"torchdeck init: {message}\n")
    return USAGE_ERROR
