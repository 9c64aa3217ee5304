"""Options of `torchdeck plan` that conflict or name no file: reported before anything is planned."""

from __future__ import annotations

import argparse
from pathlib import Path


def wrong_options(args: argparse.Namespace) -> str | None:
    """Return what is wrong with the combination of options and the remedy; None if nothing is."""
    asked = [option for option in ("--rank", "--compare") if _value(args, option) is not None]
    if len(asked) > 1:
        return "--rank and --compare are two questions: give one of them"
    for option in ("--commands", "--files", "--svg", "--export"):
        if asked and _value(args, option) not in (None, False):
            return f"{asked[0]} is answered as text or with --json: leave {option} or {asked[0]} out"
    if args.out is not None and args.export is None:
        return "--out is where --export writes to: give --export sh or sbatch, or no --out"
    return None if args.svg is None else _no_file(args.svg)


def _no_file(path: Path) -> str | None:
    """Return why no picture can be written to `path`, as far as can be checked before it is drawn."""
    try:
        if path.is_dir():
            return f"{path} cannot be written: it is a folder: name a file, such as {path / 'plan.svg'}"
        if not path.absolute().parent.is_dir():
            return f"{path} cannot be written: there is no folder {path.parent}: name another file"
    except (OSError, ValueError):  # name too long, or with a NUL: writing reports it
        return None
    return None


def _value(args: argparse.Namespace, option: str) -> object:
    return getattr(args, option.removeprefix("--"))
