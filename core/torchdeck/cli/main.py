"""`torchdeck`: which command was meant. What the command needs is imported only then."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from torchdeck.cli.output import BROKEN_PIPE_EXIT, STOPPED, USAGE, guard, is_unread, silence
from torchdeck.contract.package import VERSION

if TYPE_CHECKING:
    import argparse
    from importlib.metadata import EntryPoint

PACKAGE = "torchdeck"
WINDOW_GROUP = "torchdeck.gui"
"""An entry point in this group opens the window; the engine itself knows none."""


class Command(NamedTuple):
    """A subcommand: where it is, and its line in the help."""

    module: str
    help: str


COMMANDS = {
    "plan": Command("torchdeck.cli.plan.plan_command", "show what a run will do"),
    "check": Command("torchdeck.cli.check", "find problems that would stop a run, without starting it"),
    "init": Command("torchdeck.cli.init", "write a commented run.toml from a preset"),
    "schema": Command("torchdeck.cli.schema", "print the schema of run.toml, or explain a key"),
    "runs": Command(
        "torchdeck.cli.runs.runs_command",
        "list, show, attach, stop, resume, clone, pull, delete; logs, metrics, stacks",
    ),
    "queue": Command(
        "torchdeck.cli.queue.queue_command",
        "queue runs that start when devices are free: add, list, edit, move, pause, serve",
    ),
    "sweep": Command(
        "torchdeck.cli.sweep.sweep_command",
        "run many variants of a run file and find the best; list, show, resume, extend, stop",
    ),
    "import": Command(
        "torchdeck.cli.import_runs", "add runs of TensorBoard, wandb, trackio, Lightning and Hugging Face"
    ),
    "watch": Command("torchdeck.cli.watch", "show a training that Torchdeck did not start"),
    "nodes": Command(
        "torchdeck.cli.nodes.nodes_command", "list, add, edit, import, trust, probe, monitor and clean nodes"
    ),
    "trust": Command("torchdeck.cli.trust", "list, add and remove folders and files whose code may run"),
    "alerts": Command("torchdeck.cli.alerts", "send a test message to the targets of a run file"),
    "ckpt": Command("torchdeck.cli.ckpt.ckpt_command", "list, verify, export and convert checkpoints"),
    "generate": Command("torchdeck.cli.generate", "let a trained model continue a text"),
    "batchplan": Command("torchdeck.cli.batchplan.batchplan_command", "build, show, shard and verify plans"),
    "mcp": Command("torchdeck.cli.mcp.mcp_command", "let an assistant read runs (Model Context Protocol)"),
    "docs": Command("torchdeck.cli.docs", "open the documentation in the browser"),
}


_HEADLESS = {
    "overrides": "--set",
    "module": "--module",
    "nproc": "--nproc",
    "script_args": "what follows --",
    "queue": "--queue",
    "trust": "--trust",
    "detach": "--detach",
    "json": "--json",
}
"""Options that the window does not take, by their names in the parsed arguments."""
FAMILIES = ("runs", "queue", "sweep", "alerts", "nodes", "trust", "ckpt", "batchplan")
"""Commands whose next word is a command of their own."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # a terminal without UTF-8 shows an escape, where it would otherwise be a traceback
            stream.reconfigure(errors="backslashreplace")
    with guard():
        return _guarded(arguments)


def _guarded(arguments: list[str]) -> int:
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("torchdeck: interrupted", file=sys.stderr)
        return STOPPED
    except OSError as error:
        if not is_unread(error):
            raise
        silence()
        return BROKEN_PIPE_EXIT


def _dispatch(arguments: list[str]) -> int:
    if arguments[:2] == ["data", "batchplan"]:  # as other command lines group it
        arguments = arguments[1:]
    if arguments[:1] == ["sweep"]:
        from torchdeck.cli.sweep.sweep_command import with_verb

        arguments = with_verb(arguments)
    if arguments and arguments[0] in COMMANDS:
        import argparse

        parser = argparse.ArgumentParser(prog="torchdeck")
        import_module(COMMANDS[arguments[0]].module).add_parser(parser.add_subparsers(required=True))
        args, unknown = parser.parse_known_args(arguments)
        if unknown:
            return _unknown_arguments(arguments, unknown)
        code: int = args.handler(args)
        return code
    meant = _command_meant(arguments[0]) if arguments else None
    if meant is not None:
        print(
            f"torchdeck: there is no command {arguments[0]}, and no such file; there is torchdeck {meant}",
            file=sys.stderr,
        )
        return USAGE
    return _run(arguments)


def _unknown_arguments(arguments: list[str], unknown: list[str]) -> int:
    command = " ".join(["torchdeck", arguments[0], *(arguments[1:2] if arguments[0] in FAMILIES else ())])
    print(
        f"{command}: unknown arguments: {' '.join(unknown)}; `{command} --help` lists what it takes",
        file=sys.stderr,
    )
    return USAGE


def _command_meant(word: str) -> str | None:
    """The command that was most likely meant; None for a run file or an option."""
    from pathlib import Path

    if word.startswith("-") or Path(word).suffix or Path(word).exists():
        return None
    from torchdeck.config.spelling import nearest

    return next(iter(nearest(word, COMMANDS)), None)


def _run(arguments: list[str]) -> int:
    parser = run_parser()
    args = parser.parse_args(arguments)
    named = args.run_file is not None or args.script is not None or args.module is not None
    if args.no_gui:
        if not named:
            parser.error("nothing to run: give a RUN.toml, or --script FILE --nproc N -- ARGUMENTS")
        from torchdeck.cli.runs.start import run_headless

        return run_headless(args)
    left_out = [option for name, option in _HEADLESS.items() if getattr(args, name)]
    if left_out:
        said = f"{left_out[0]} needs --no-gui"
        parser.error(said)
    return _open_window(args.run_file or args.script, named=named, arguments=arguments)


def run_parser() -> argparse.ArgumentParser:
    import argparse

    from torchdeck.cli.run_source import add_run_source

    listed = "\n".join(f"  {name:<9} {command.help}" for name, command in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="torchdeck",
        usage="torchdeck [--no-gui] [RUN.toml | --script FILE | --module NAME] [options] [-- ARGUMENTS]\n"
        "       torchdeck COMMAND ...",
        description="Launch distributed PyTorch training and supervise it.",
        epilog=f"commands (torchdeck COMMAND --help says more):\n{listed}\n\n"
        "exit status: 0 succeeded, 1 the run failed, 2 bad config or usage, 3 refused before the start,\n"
        "130 stopped by the user",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--no-gui", action="store_true", help="run without a window: start, watch, and report the result"
    )
    add_run_source(parser)
    parser.add_argument("--queue", action="store_true", help="wait for devices that another run holds")
    parser.add_argument(
        "--trust", action="store_true", help="trust the code that the run file names (see `torchdeck trust`)"
    )
    parser.add_argument(
        "--detach", action="store_true", help="print the run's id and return; the run continues"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.add_argument("--version", action="version", version=f"torchdeck {VERSION}")
    return parser


def _open_window(run_file: str | None, *, named: bool, arguments: list[str]) -> int:
    from pathlib import Path

    if run_file is not None and not Path(run_file).exists():
        print(f"torchdeck: there is no file {run_file}; `torchdeck` alone opens the window", file=sys.stderr)
        return USAGE
    for entry in windows():
        window = entry.load()
        code: int = window([] if run_file is None else [run_file])
        return code
    instead = " ".join(["torchdeck", "--no-gui", *arguments]) if named else "torchdeck --no-gui RUN.toml"
    print(
        "torchdeck: there is no window (the app is not installed). "
        f"To run without one: {instead}; `torchdeck init` writes a first RUN.toml, --help lists all commands",
        file=sys.stderr,
    )
    return USAGE


def windows() -> Iterable[EntryPoint]:
    """Return the entry points that open the window, of this package alone: asking every installed one would
    take longest before the window.
    """
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return distribution(PACKAGE).entry_points.select(group=WINDOW_GROUP)
    except PackageNotFoundError:  # run from a folder of sources
        return ()


if __name__ == "__main__":
    sys.exit(main())
