"""`torchdeck nodes trust`: connect, show unknown host keys, save those that are right."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchdeck.cli.nodes.lookup import inventory_file, says_what_is_wrong
from torchdeck.cli.output import REFUSED, SUCCEEDED, json_text

if TYPE_CHECKING:
    from torchdeck.nodes.ssh.credentials import Asker, Credentials
    from torchdeck.nodes.ssh.errors import SshError
    from torchdeck.nodes.ssh.target import SshTarget

AT_ONCE = 32
"""Nodes that are connected to at the same time."""
LIMIT = 20.0
"""Seconds that connecting may take, without the time that a person thinks."""


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "trust",
        help="connect to nodes, show unknown host keys and save the ones you verify",
        description="Asks at the terminal for missing keys and passwords. Without a terminal only keys given "
        "by --fingerprint are trusted. Trusted keys are saved to known_hosts in Torchdeck's home.",
    )
    parser.add_argument("nodes", nargs="+", metavar="NODE", help="a node, a group, a range, or tag:TAG")
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
    parser.add_argument("--json", action="store_true", help="print a JSON array")
    parser.set_defaults(handler=run)


@says_what_is_wrong
def run(args: argparse.Namespace) -> int:
    """Connect to each; 3 when one of them cannot be connected to."""
    from torchdeck.nodes.inventory.file import read_inventory
    from torchdeck.nodes.inventory.names import named_nodes
    from torchdeck.nodes.ssh.credentials import Credentials
    from torchdeck.nodes.ssh.keyring_store import Keyring, names_of
    from torchdeck.nodes.ssh.target import target_of

    path = inventory_file()
    node_inventory = read_inventory(path)
    targets = [
        target_of(name, node_inventory, path.parent) for name in named_nodes(node_inventory, args.nodes)
    ]
    keyring, credentials = Keyring(path.parent), Credentials()
    if args.keyring == "forget":
        gone = keyring.forget(name for target in targets for name in names_of(target))
        print(json_text(gone) if args.json else f"forgot {', '.join(gone) or 'nothing'}")
        return SUCCEEDED
    answers = _visit_all(targets, credentials, path.parent, args.fingerprint)
    if args.keyring == "keep":
        kept = keyring.keep(credentials)
        print(f"torchdeck: the keyring has {', '.join(kept) or 'nothing new'}", file=sys.stderr)
    if args.json:
        print(json_text(answers, indent=1))
    else:
        for answer in answers:
            if answer["why"]:
                print(f"torchdeck: {answer['why']}", file=sys.stderr)
            else:
                print(f"{answer['node']}: {answer['login']} is reached, and its host key is known")
    return SUCCEEDED if all(answer["reached"] for answer in answers) else REFUSED


def _visit_all(
    targets: list[SshTarget], credentials: Credentials, home: Path, fingerprints: list[str]
) -> list[dict[str, Any]]:
    """Connect to all at once without a question; then, one after the other, to those that have one."""
    from concurrent.futures import ThreadPoolExecutor

    from torchdeck.cli.nodes.asking import terminal_asker
    from torchdeck.nodes.ssh.credentials import NoAsker
    from torchdeck.nodes.ssh.errors import HostKeyUnknownError, NeedsLoginError

    nobody, person = _Given(NoAsker(), fingerprints), _Given(terminal_asker(home), fingerprints)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(lambda target: _visit(target, credentials, nobody), targets))
    answers = []
    for target, error in zip(targets, results, strict=True):
        if isinstance(error, HostKeyUnknownError | NeedsLoginError):
            error = _visit(target, credentials, person)
        why = "" if error is None else _why(error, target.name, fingerprints)
        answers.append({"node": target.name, "login": target.login, "reached": not why, "why": why})
    return answers


def _why(error: SshError, node: str, fingerprints: list[str]) -> str:
    """Return the reason for a user who has typed this command already: which words are missing, or were
    wrong.
    """
    from torchdeck.nodes.ssh.errors import HostKeyUnknownError

    if not isinstance(error, HostKeyUnknownError):
        return str(error)
    given = f"--fingerprint {', '.join(fingerprints)} does not match it" if fingerprints else ""
    return (
        f"node {error.node}: no one has said yet that its host key is the right one: {error.key_type} "
        f"{error.fingerprint}{f'; {given}' if given else ''}. If it is, "
        f"`torchdeck nodes trust {node} --fingerprint {error.fingerprint}` writes it down"
    )


def _visit(target: SshTarget, credentials: Credentials, asker: Asker) -> SshError | None:
    """Connect and leave again; why that did not work."""
    from torchdeck.nodes.ssh.connection import connect
    from torchdeck.nodes.ssh.errors import SshError

    try:
        connect(target, credentials, asker, LIMIT).close()
    except SshError as error:
        return error
    return None


class _Given:
    """Trusts keys whose fingerprints stand on the command line; all else is asked."""

    def __init__(self, asker: Asker, fingerprints: list[str]) -> None:
        self._asker = asker
        self._fingerprints = fingerprints

    def password(self, target: SshTarget, *, again: bool) -> str | None:
        return self._asker.password(target, again=again)

    def passphrase(self, path: Path, *, again: bool) -> str | None:
        return self._asker.passphrase(path, again=again)

    def trust(self, target: SshTarget, key_type: str, fingerprint: str) -> bool:
        return fingerprint in self._fingerprints or self._asker.trust(target, key_type, fingerprint)
