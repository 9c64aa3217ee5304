"""Start of a node's Python after its activation script, which must have the content that the user trusts.

Naming a script in the node inventory approves its content at the first use. A script of the user's own that
has changed since then does not run until it is trusted again.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Sequence
from pathlib import Path

from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.ssh.errors import TargetError
from torchdeck.nodes.ssh.login_shell import Starts, start_in_shell
from torchdeck.nodes.ssh.remote_process import RemoteProcess
from torchdeck.nodes.start_line import TrustedContent, python_line, remote_path
from torchdeck.trust.trust_list import NodeScript, TrustError, TrustList

_MOST_OUTPUT = 4096


def start_python(
    connection: Starts, entry: NodeEntry, arguments: Sequence[str], limit: float
) -> RemoteProcess:
    """Start a node's Python in its environment.

    Args:
        connection: connection to the node.
        entry: its entry in the node inventory.
        arguments: arguments of its Python.
        limit: timeout in seconds until it begins.

    Raises:
        SshError: it cannot be started, or the trust list cannot be used.
    """
    until, home, trusted = time.monotonic() + limit, connection.target.home, None
    if entry.activate is not None and home is not None:
        try:
            trusted = _trusted(connection, home, entry.activate, limit)
        except TrustError as error:
            raise TargetError(connection.target.name, str(error)) from error
    left = max(0.0, until - time.monotonic())
    return start_in_shell(connection, python_line(entry, arguments, trusted), left)


def content_digest(connection: Starts, path: str, limit: float) -> str:
    """Return the SHA-256 of a file on a node in hexadecimal; empty if it cannot be read. Raises SshError."""
    until = time.monotonic() + limit
    said = b""
    with start_in_shell(connection, f"exec sha256sum <{remote_path(path)}", limit) as process:
        while len(said) < _MOST_OUTPUT and (data := process.read(_MOST_OUTPUT, until - time.monotonic())):
            said += data
    found = re.fullmatch(rb"([0-9a-f]{64})  -\n", said)
    return found[1].decode("ascii") if found else ""


def trust_script(connection: Starts, home: Path, script: NodeScript, limit: float) -> None:
    """Trust an activation script with its current content.

    Raises:
        SshError: the connection fails.
        TrustError: the script cannot be read on the node, or the list not be written.
    """
    digest = content_digest(connection, script.path, limit)
    if not digest:
        raise TrustError(f"{script.path} cannot be read on node {script.node}", fix="name what is there")
    TrustList(home).add_node_script(script, digest)


def _trusted(connection: Starts, home: Path, path: str, limit: float) -> TrustedContent | None:
    """Return the trusted content; at the first use that is the current one. None if there is no script."""
    trust_list, script = TrustList(home), NodeScript(connection.target.name, path)
    digest = trust_list.node_scripts().get(script)
    if digest is None:
        digest = content_digest(connection, path, limit)
        if not digest:
            return None
        trust_list.add_node_script(script, digest)
    return _content(script, digest)


def known_content(home: Path, node: str, path: str) -> TrustedContent:
    """Return the content that an activation script may have, without a connection; none if it was never used.

    Raises:
        TrustError: the trust list cannot be read.
    """
    script = NodeScript(node, path)
    return _content(script, TrustList(home).node_scripts().get(script))


def _content(script: NodeScript, digest: str | None) -> TrustedContent:
    return TrustedContent(digest or "none", f"read it, then `torchdeck trust add {shlex.quote(str(script))}`")
