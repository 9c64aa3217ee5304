"""Connection to a node, through any number of hosts, on which commands are run."""

from __future__ import annotations

import logging
import shlex
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from torchdeck.nodes.ssh.credentials import Asker, Credentials
from torchdeck.nodes.ssh.errors import (
    HostKeyChangedError,
    HostKeyRevokedError,
    NeedsLoginError,
    SshError,
    UnansweredError,
    UnreachableError,
    reason,
)
from torchdeck.nodes.ssh.host_keys import KnownKey, Verdict, fingerprint, judge, known_types, read_known
from torchdeck.nodes.ssh.login import log_in
from torchdeck.nodes.ssh.questions import Asked, Question, TrustQuestion
from torchdeck.nodes.ssh.remote_process import RemoteProcess, close_channel
from torchdeck.nodes.ssh.route import Route, open_route
from torchdeck.nodes.ssh.target import SshTarget
from torchdeck.quantities import size

if TYPE_CHECKING:
    from paramiko import Channel, Transport

KEEPALIVE = 5.0
"""Seconds of silence after which a keepalive is sent, so that a dead connection is noticed."""
MOST_QUESTIONS = 32
"""Maximum prompts for one connection: more mean that an answer does not help."""
MOST_OUTPUT = 256 * 2**20
"""Maximum bytes that a command of `Connection.run` may print."""
WINDOW = 8 * 2**20
"""Bytes that may be in flight unread on one channel."""
PACKET = 2**15
KEY_ALGORITHMS = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}
"""Names under which a type of key is requested, if they differ."""
CIPHERS = (
    *("aes128-gcm@openssh.com", "aes256-gcm@openssh.com"),  # several times as fast: they need no MAC
    *("aes128-ctr", "aes192-ctr", "aes256-ctr"),
)
"""OpenSSH's default ciphers, in our order; CBC modes and 3DES are off."""
MACS = (
    *("hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com", "hmac-sha2-256", "hmac-sha2-512"),
    "hmac-sha1",
)
"""OpenSSH's default MACs; MD5 and truncated hashes are off."""


@dataclass(frozen=True)
class Finished:
    """Finished command."""

    code: int
    """Exit code; -1 if a signal ended it."""
    stdout: bytes
    stderr: bytes


def connect(target: SshTarget, credentials: Credentials, asker: Asker, limit: float) -> Connection:
    """Connect and log in.

    Args:
        target: destination, and the hosts in between.
        credentials: known credentials; prompted ones are added.
        asker: prompts for missing ones. During a prompt, nothing is open and no timeout runs.
        limit: total timeout in seconds of each try.

    Raises:
        UnreachableError, HostKeyUnknownError, HostKeyChangedError, NeedsLoginError: each names the host.
    """
    asked = Asked(target.name, asker, credentials)
    for _ in range(MOST_QUESTIONS):
        try:
            begun = time.monotonic()
            connection = _try(target, asked, begun + limit)
            connection.seconds = time.monotonic() - begun
            return connection
        except Question as question:
            try:
                question.put(asked)
            except OSError as error:
                raise NeedsLoginError(target.name, f"the host key cannot be saved: {error}") from error
    raise NeedsLoginError(target.name, f"{MOST_QUESTIONS} prompts were answered without success")


class Connection:
    """Authenticated SSH connection. Any thread may use it; `close` it, or leave its `with`."""

    def __init__(self, target: SshTarget) -> None:
        self.target = target
        self.seconds = 0.0
        """That its making took, without those in which a person was asked."""
        self._hops: list[tuple[Transport, Route]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def transport(self) -> Transport:
        """paramiko's transport of the last hop."""
        return self._hops[-1][0]

    @property
    def alive(self) -> bool:
        """Whether it is still up, as far as is known: a cut line is detected after about 15 s."""
        return bool(self._hops) and all(transport.is_active() for transport, _ in self._hops)

    def run(self, line: str, stdin: bytes = b"", limit: float = 20.0) -> Finished:
        """Run a shell line to its end, with `stdin` as its standard input.

        Raises:
            UnansweredError: it takes longer than `limit` seconds; it keeps running then.
            UnreachableError: the connection was lost, or it printed more than `MOST_OUTPUT` bytes.
        """
        deadline = time.monotonic() + limit
        with self.start(line, limit) as process:
            process.feed(stdin)
            try:
                output = self._output(process, deadline)
                code = process.wait(max(0.0, deadline - time.monotonic()))
            except UnansweredError:
                raise UnansweredError(self.target.name, f"a command did not end within {limit:g} s") from None
            return Finished(code, output, process.stderr)

    def start(self, line: str, limit: float = 20.0) -> RemoteProcess:
        """Start a shell line; its standard input and output are the process's `write` and `read`.

        Raises:
            UnansweredError: the node does not answer within `limit` seconds.
            UnreachableError: the connection was lost, or the node refuses another channel.
        """
        from paramiko.ssh_exception import ChannelException, SSHException

        name = self.target.name
        deadline = time.monotonic() + limit
        try:
            channel = self.transport.open_session(window_size=WINDOW, max_packet_size=PACKET, timeout=limit)
            _execute(channel, line, name, deadline)
        except UnansweredError:
            raise
        except ChannelException as error:
            raise UnreachableError(name, f"it refuses to open another channel: {error.text}") from error
        except (SSHException, EOFError, OSError) as error:
            if self.alive and isinstance(error, TimeoutError | SSHException) and "imeout" in repr(error):
                raise UnansweredError(name, f"it did not answer within {limit:g} s") from error
            raise UnreachableError(name, f"the connection was lost ({reason(error)})") from error
        return RemoteProcess(name, channel)

    def _output(self, process: RemoteProcess, deadline: float) -> bytes:
        output = bytearray()
        while chunk := process.read(PACKET * 8, max(0.0, deadline - time.monotonic())):
            output += chunk
            if len(output) > MOST_OUTPUT:
                raise UnreachableError(self.target.name, f"a command printed over {size(MOST_OUTPUT)}")
        return bytes(output)

    def close(self) -> None:
        """Close it and the hops before it. Processes on the node continue."""
        hops, self._hops = self._hops, []
        for transport, route in reversed(hops):
            transport.close()
            route.close()

    def add_hop(self, target: SshTarget, asked: Asked, deadline: float) -> None:
        """Connect one host further; `connect` calls this for each hop."""
        route = open_route(target, self.transport if self._hops else None, deadline)
        transport = _transport(route)
        self._hops.append((transport, route))
        try:
            _handshake(transport, target, route, deadline)
            log_in(transport, target, asked, deadline)
        except UnreachableError as error:
            if time.monotonic() >= deadline:
                raise UnreachableError(
                    target.name, f"{target.host} did not answer within the limit"
                ) from error
            raise
        transport.set_keepalive(int(KEEPALIVE))


def _try(target: SshTarget, asked: Asked, deadline: float) -> Connection:
    connection = Connection(target)
    try:
        for hop in (*target.jumps, target):
            connection.add_hop(hop, asked, deadline)
    except BaseException:
        connection.close()
        raise
    return connection


def _execute(channel: Channel, line: str, name: str, deadline: float) -> None:
    """Start a shell line; paramiko alone would wait for the answer forever.

    Raises:
        UnansweredError: sshd does not answer before `deadline`.
        SSHException, EOFError, OSError: it refuses, or the connection was lost.
    """
    from paramiko.ssh_exception import SSHException

    deciding = threading.Lock()
    ended: list[str] = []

    def is_first(who: str) -> bool:
        with deciding:
            ended.append(who)
            return len(ended) == 1

    def give_up() -> None:
        if is_first("limit"):  # a channel already handed out is not closed here
            close_channel(channel)

    left = max(0.0, deadline - time.monotonic())
    timer = threading.Timer(left, give_up)
    timer.daemon = True
    timer.start()
    refused: Exception | None = None
    try:
        channel.exec_command(line.encode("utf-8", "surrogateescape"))
    except (SSHException, EOFError, OSError) as error:
        refused = error
    finally:
        timer.cancel()
        in_time = is_first("answer")
    if not in_time:
        what = f"its sshd opened a session and started no command in it within {left:.3g} s"
        raise UnansweredError(name, what) from refused
    if refused is not None:
        raise refused


def _transport(route: Route) -> Transport:
    from paramiko import Transport

    logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # errors are raised, and reported there
    transport = Transport(route.stream, default_window_size=WINDOW, default_max_packet_size=PACKET)
    options = transport.get_security_options()
    options.ciphers = [name for name in CIPHERS if name in options.ciphers]
    options.digests = [name for name in MACS if name in options.digests]
    return transport


def _handshake(transport: Transport, target: SshTarget, route: Route, deadline: float) -> None:
    """Negotiate ciphers and verify the host key.

    Raises:
        TrustQuestion: it is not known.
        HostKeyChangedError: it differs from the known one.
        UnreachableError: the peer does not speak SSH.
    """
    from paramiko.ssh_exception import SSHException

    try:
        known = read_known(target.known_hosts)
    except OSError as error:
        raise UnreachableError(target.name, f"{error.filename} cannot be read: {error.strerror}") from error
    _ask_for(transport, known_types(known, target.key_names))
    remaining = max(0.001, deadline - time.monotonic())
    transport.banner_timeout = transport.handshake_timeout = remaining
    try:
        transport.start_client(timeout=remaining)
        shown = transport.get_remote_server_key()  # fails if the timeout ended the negotiation
    except (SSHException, EOFError, OSError) as error:
        why = route.complaint() or reason(error)
        raise UnreachableError(
            target.name, f"{target.host}, port {target.port}: SSH did not start ({why})"
        ) from error
    judgement = judge(known, target.key_names, shown.asbytes())
    if judgement.verdict is Verdict.UNKNOWN:
        raise TrustQuestion(target, shown.get_name(), shown.asbytes())
    if judgement.verdict is not Verdict.KNOWN and judgement.because is not None:
        shown_as = f"{shown.get_name()} {fingerprint(shown.asbytes())}"
        raise _refused(target, shown_as, judgement.verdict, judgement.because)


def _ask_for(transport: Transport, types: list[str]) -> None:
    """Request the known types of host keys first, or the host might show one of an unknown type."""
    options = transport.get_security_options()
    wanted = [name for kind in types for name in KEY_ALGORITHMS.get(kind, (kind,))]
    first = [name for name in wanted if name in options.key_types]
    options.key_types = (*first, *(name for name in options.key_types if name not in first))


def _refused(target: SshTarget, shown: str, verdict: Verdict, line: KnownKey) -> SshError:
    place = f"line {line.line} of {line.file}"
    if verdict is Verdict.REVOKED:
        return HostKeyRevokedError(
            target.name, f"the host key of {target.host}, {shown}, is revoked ({place})"
        )
    remove = f"ssh-keygen -R {shlex.quote(target.key_names[0])} -f {shlex.quote(str(line.file))}"
    return HostKeyChangedError(
        target.name,
        f"the host key of {target.host} is another one than before: now {shown}, and {place} holds the old "
        "one. Someone may be in between. Only if the host's own administrator confirms this fingerprint, "
        f"`{remove}` removes the old one",
    )
