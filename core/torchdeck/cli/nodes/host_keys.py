"""`torchdeck nodes trust`: connect, show unknown host keys, save those that are right."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from torchdeck.cli.nodes.command_errors import nodes_home, reports_refusals
from torchdeck.cli.output import REFUSED, SUCCEEDED, json_text
from torchdeck.cli.terminal_ui import TerminalUi

if TYPE_CHECKING:
    from torchdeck.use_cases.nodes.host_keys import Visited


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "trust",
        help="connect to nodes, show unknown host keys and save the ones you verify",
        description="Asks at the terminal for missing keys and passwords. Without a terminal only keys given "
        "by --fingerprint are trusted. Trusted keys are saved to known_hosts in Torchdeck's home.",
    )
    parser.add_argument("nodes", nargs="*", metavar="NODE", help="a node, a group, a range, or tag:TAG")
    parser.add_argument(
        "--fingerprint",
        action="append",
        default=[],
        metavar="SHA256:...",
        help="trust a key with this fingerprint without asking; may be repeated",
    )
    parser.add_argument(
        "--keyring",
        choices=("keep", "forget"),
        help="keep: store passwords and passphrases that you enter in the system's keyring; forget: "
        "only remove those of these nodes from it",
    )
    parser.add_argument(
        "--secret",
        action="append",
        default=[],
        metavar="NAME",
        help="with --keyring forget: remove this secret of runs from the keyring; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON array")
    parser.set_defaults(handler=run, usage_error=parser.error)


@reports_refusals
def run(args: argparse.Namespace) -> int:
    """Connect to each; 3 when one of them cannot be connected to."""
    from torchdeck.use_cases.nodes.host_keys import (
        TrustHostsRequest,
        forget_logins,
        forget_secrets,
        trust_hosts,
    )

    if args.secret and args.keyring != "forget":
        args.usage_error("--secret needs --keyring forget")
    if not args.nodes and not args.secret:
        args.usage_error("name a node")
    home = nodes_home()
    if args.keyring == "forget":
        gone = [*forget_logins(home, args.nodes), *forget_secrets(home, args.secret)]
        print(json_text(gone) if args.json else f"forgot {', '.join(gone) or 'nothing'}")
        return SUCCEEDED
    keeps = args.keyring == "keep"
    found = trust_hosts(TrustHostsRequest(home, args.nodes, args.fingerprint, keeps), TerminalUi())
    if keeps:
        print(f"torchdeck: the keyring has {', '.join(found.kept) or 'nothing new'}", file=sys.stderr)
    if args.json:
        print(json_text([_document(each, args.fingerprint) for each in found.visited], indent=1))
    else:
        for each in found.visited:
            if each.error is not None:
                print(f"torchdeck: {_why(each, args.fingerprint)}", file=sys.stderr)
            else:
                print(f"{each.node}: {each.login} answers, and its host key is trusted")
    return SUCCEEDED if all(each.error is None for each in found.visited) else REFUSED


def _document(visited: Visited, fingerprints: list[str]) -> dict[str, Any]:
    why = _why(visited, fingerprints)
    return {"node": visited.node, "login": visited.login, "reached": not why, "why": why}


def _why(visited: Visited, fingerprints: list[str]) -> str:
    """Return why connecting failed, and which argument of this command is missing or wrong."""
    from torchdeck.nodes.ssh.errors import HostKeyUnknownError

    error = visited.error
    if not isinstance(error, HostKeyUnknownError):
        return "" if error is None else str(error)
    given = f"--fingerprint {', '.join(fingerprints)} does not match it" if fingerprints else ""
    return (
        f"node {error.node}: host key not verified: {error.key_type} "
        f"{error.fingerprint}{f'; {given}' if given else ''}. If it is, "
        f"`torchdeck nodes trust {visited.node} --fingerprint {error.fingerprint}` saves it"
    )
