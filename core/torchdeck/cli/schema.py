"""`torchdeck schema`: the keys of a run file, for people, editors and programs."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from torchdeck.cli.output import json_text

USAGE_ERROR = 2


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "schema",
        help="print the schema of run.toml, or explain a key",
        description="Without arguments: the JSON schema of run.toml. With KEY: the meaning of that key.",
    )
    parser.add_argument(
        "key",
        metavar="KEY",
        nargs="?",
        help='a key or table to explain, such as training.lr, or words to find keys by, such as "batch size"',
    )
    parser.add_argument("--docs", action="store_true", help="print a Markdown reference of every key")
    parser.add_argument("--json", action="store_true", help="with KEY: its description as JSON")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Print the requested keys; 2 if unknown key."""
    from torchdeck.config import documentation

    if args.key is not None and args.docs:
        sys.stderr.write("torchdeck schema: give KEY or --docs, not both\n")
        return USAGE_ERROR
    if args.docs:
        text = documentation.reference()
        sys.stdout.write(_json({"markdown": text}) if args.json else text)
        return 0
    if args.key is None:
        sys.stdout.write(_json(documentation.json_schema()))
        return 0
    try:
        sys.stdout.write(
            _json(documentation.facts(args.key)) if args.json else documentation.explain(args.key)
        )
    except documentation.UnknownKeyError as error:
        if not args.json and (found := documentation.found(args.key)):
            sys.stdout.write(found)
            return 0
        sys.stderr.write(f"torchdeck schema: {error}\n")
        return USAGE_ERROR
    return 0


def _json(value: Any) -> str:
    return json_text(value, indent=2) + "\n"
