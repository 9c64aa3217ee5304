"""`torchdeck alerts`: alerts of a run file."""

from __future__ import annotations

import argparse

from torchdeck.cli.output import REFUSED, SUCCEEDED, json_text
from torchdeck.cli.run_source import TRUST_HELP

DESCRIPTION = """\
Send one test message to every target in the [alerts] table of a run file, from this machine, and print what
became of it. Alerts of a run are sent from its first node. Exits with 3 if a target was not reached.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("alerts", help="send a test message to the targets of a run file")
    commands = parser.add_subparsers(required=True)
    test = commands.add_parser(
        "test",
        help="send a test message",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    test.add_argument("run_file", metavar="RUN.toml", help="a run file")
    test.add_argument(
        "--set",
        action="append",
        default=[],
        dest="overrides",
        metavar="KEY=VALUE",
        help="override a key of the run file, such as alerts.desktop=true; may be repeated",
    )
    test.add_argument("--trust", action="store_true", help=TRUST_HELP)
    test.add_argument("--json", action="store_true", help="print one JSON object")
    test.set_defaults(handler=_test)


def _test(args: argparse.Namespace) -> int:
    from torchdeck.cli.refusals import report
    from torchdeck.config.loader import load_config
    from torchdeck.contract.refusal import Refusal
    from torchdeck.runs.home import torchdeck_home
    from torchdeck.shown_text import shown_line
    from torchdeck.use_cases.alerts import send_test_alert

    try:
        loaded = load_config(args.run_file, args.overrides)
        found = send_test_alert(loaded, torchdeck_home(), trust=args.trust)
    except Refusal as error:
        return report(error, as_json=args.json)
    if args.json:
        targets = [{"target": each.target, "sent": not each.why, "why": each.why} for each in found]
        print(json_text({"targets": targets}, indent=1))
    else:
        for each in found:
            print(f"{each.target}: {f'failed: {shown_line(each.why)}' if each.why else 'sent'}")
    return REFUSED if any(each.why for each in found) else SUCCEEDED
