"""Command line of a start: a run file, or any torchrun script with its arguments after `--`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchdeck.config.loader import LoadedConfig

TRUST_HELP = "trust what the run file names: recipe, the recipe's imports, Python, hosts that get secrets"
EXAMPLES = """\
examples:
  RUN.toml                                   a run file
  --script train.py --nproc 2 -- --lr 0.1    any script that torchrun starts
"""


def add_run_source(parser: argparse.ArgumentParser) -> None:
    """Add RUN.toml, --set, --script, --module, --nproc, and a script's arguments after `--`."""
    parser.add_argument("run_file", nargs="?", metavar="RUN.toml", help="a run file")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="overrides",
        metavar="KEY=VALUE",
        help="override a key of the run file, such as training.lr=3e-4; may be repeated",
    )
    parser.add_argument("--script", metavar="FILE", help="run this script instead; its arguments follow --")
    parser.add_argument("--module", metavar="NAME", help="run this module (python -m) instead")
    parser.add_argument(
        "--nproc", metavar="N", help="ranks per node, or a range such as 2:3 to continue with fewer"
    )
    parser.set_defaults(script_args=[])
    split_at_dashes(parser)


def load_run_source(args: argparse.Namespace) -> LoadedConfig:
    """Return the config that the command line names.

    Raises:
        ConfigError: it is wrong, or the command line names no run or two.
    """
    problem = _contradiction(args)
    if problem is not None:
        raise problem
    overrides = list(args.overrides)
    if args.nproc is not None:
        overrides.append(f"distributed.nproc={args.nproc}")
    if args.run_file is not None:
        from torchdeck.config.loader import load_config

        return load_config(args.run_file, overrides)
    if args.module is not None:
        return _written_config("module", args.module, args.script_args, overrides)
    return _written_config("script", args.script, args.script_args, overrides)


def split_at_dashes(parser: argparse.ArgumentParser) -> None:
    """Take everything after the first `--` unchanged, as `script_args`.

    argparse drops every further `--` from it on Python 3.11, but a script's arguments must arrive unchanged.
    """
    parse: Callable[..., tuple[argparse.Namespace, list[str]]] = parser.parse_known_args

    def parse_known_args(
        args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        words = list(sys.argv[1:] if args is None else args)
        if "--" not in words:
            return parse(words, namespace)
        at = words.index("--")
        found, unknown = parse(words[:at], namespace)
        found.script_args = words[at + 1 :]
        return found, unknown

    parser.parse_known_args = parse_known_args  # type: ignore[method-assign, assignment]  # the one way in


def _contradiction(args: argparse.Namespace) -> Exception | None:
    from torchdeck.config.problems import ConfigError, Problem

    def wrong(what: str, right: str) -> ConfigError:
        return ConfigError([Problem("", "", None, what, right)])

    named = [(args.run_file, ""), (args.script, "--script "), (args.module, "--module ")]
    given = [f"{option}{value}" for value, option in named if value is not None]
    if not given:
        return wrong("nothing to run is given", "RUN.toml, or --script FILE --nproc N -- ARGUMENTS")
    if len(given) > 1:
        return wrong(f"{' and '.join(given)} are both given", "one of the two")
    if args.run_file is not None and args.script_args:
        return wrong("arguments of a run file belong in it", "run.args in the file, or --set run.args=[...]")
    for argument in args.script_args:
        try:
            argument.encode("utf-8")
        except UnicodeEncodeError:
            return wrong(f"the argument {argument!r} is not UTF-8", "text in UTF-8")
    return None


def _written_config(kind: str, target: str, arguments: list[str], overrides: list[str]) -> LoadedConfig:
    from torchdeck.config.loader import LoadedConfig, config_from_dict
    from torchdeck.config.starting_files import run_file_table, run_file_text

    folder = Path.cwd()
    name = (Path(target).stem if kind == "script" else target) or "run"
    table: dict[str, Any] = {"run": {kind: target, "args": arguments}}
    config = config_from_dict(table, folder, overrides, name=name)
    written = run_file_table(config)
    return LoadedConfig(
        config=config,
        path=folder / f"{name}.toml",
        files=(),
        text=run_file_text(written),
        written=written,
        locate=lambda _key: ("", None),
    )
