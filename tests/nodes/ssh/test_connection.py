"""Connections to real sshd: running commands, losing the line, saying what is wrong."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support.cli.asking import Person
from support.hosts.hosts import TestHosts
from support.waiting import wait_until
from torchdeck.nodes.inventory.schema import NodeEntry, NodeInventory
from torchdeck.nodes.ssh.connection import Connection, connect
from torchdeck.nodes.ssh.credentials import Credentials, NoAsker
from torchdeck.nodes.ssh.errors import UnansweredError, UnreachableError
from torchdeck.nodes.ssh.target import SshTarget, target_for

Hosts = Callable[..., TestHosts]
LIMIT = 20.0


def target(hosts: TestHosts, home: Path, host: int = 1, **more: Any) -> SshTarget:
    entry = NodeEntry(**hosts.entry(host, **more))
    return target_for(f"node{host}", entry, NodeInventory(), home)


def connected(hosts: TestHosts, home: Path, host: int = 1, **more: Any) -> Connection:
    return connect(target(hosts, home, host, **more), Credentials(), NoAsker(), LIMIT)


def test_a_command_gets_its_input_and_gives_output_errors_and_exit_code(
    hosts: Hosts, torchdeck_home: Path
) -> None:
    with connected(hosts(1), torchdeck_home) as connection:
        done = connection.run("cat; echo oh >&2; exit 7", b"a\x00b\xff")
        assert (done.code, done.stdout, done.stderr) == (7, b"a\x00b\xff", b"oh\n")
        assert connection.run("true").code == 0
        assert connection.run("kill -9 $$").code == -1
        assert connection.alive


def test_who_writes_to_a_command_that_has_ended_is_told_what_it_said(
    hosts: Hosts, torchdeck_home: Path
) -> None:
    """Before anybody has read it: a writer does not depend on a reader."""
    with (
        connected(hosts(1), torchdeck_home) as connection,
        connection.start("echo first >&2; echo no such thing >&2; exit 3") as process,
    ):
        process.wait(20)

        def refused() -> str:
            try:
                process.write(b"x")
            except UnreachableError as error:
                return str(error)
            return ""

        wait_until(lambda: refused() != "", 20, "the channel's end")
        assert refused() == "node node1: the command has ended: no such thing"
        assert b"first" in process.stderr


def test_megabytes_go_in_and_out_at_once(hosts: Hosts, torchdeck_home: Path) -> None:
    sent = bytes(range(256)) * 40_000  # 10 MB: more than any window, so that both ways must move
    with connected(hosts(1), torchdeck_home) as connection:
        assert connection.run("tee /dev/stderr", sent, limit=60).stdout == sent


def test_a_process_is_written_to_and_read_from_while_it_runs(hosts: Hosts, torchdeck_home: Path) -> None:
    with connected(hosts(1), torchdeck_home) as connection, connection.start("exec cat") as process:
        for word in (b"one\n", b"two\n"):
            process.write(word)
            assert process.read(100, LIMIT) == word
        assert process.exit_code is None
        process.end_input()
        assert process.read(100, LIMIT) == b""
        assert process.wait(LIMIT) == 0
        assert process.exit_code == 0


def test_closing_a_process_wakes_its_reader(hosts: Hosts, torchdeck_home: Path) -> None:
    with connected(hosts(1), torchdeck_home) as connection, connection.start("exec cat") as process:
        got: list[bytes] = []
        reader = threading.Thread(target=lambda: got.append(process.read(10, 60)))
        reader.start()
        process.close()
        reader.join(10)
        assert got == [b""]


def test_a_command_that_takes_too_long_is_said_to(hosts: Hosts, torchdeck_home: Path) -> None:
    with connected(hosts(1), torchdeck_home) as connection:
        said = ""
        for limit in (0.2, 2.0, 20.0):
            with pytest.raises(UnansweredError) as caught:
                connection.run("sleep 60", limit=limit)
            said = str(caught.value)
            if said == f"node node1: a command did not end within {limit:g} s":
                break  # on a busy machine it may not even have begun
        assert "did not end within" in said
        assert connection.run("echo still here").stdout == b"still here\n"


def test_standard_error_that_nobody_reads_stops_nobody(hosts: Hosts, torchdeck_home: Path) -> None:
    with connected(hosts(1), torchdeck_home) as connection:
        done = connection.run("head -c 30000000 /dev/zero >&2; printf last >&2; echo done", limit=60)
        assert done.stdout == b"done\n"
        assert done.stderr.endswith(b"last")
        assert len(done.stderr) <= 64 * 1024


def test_32_hosts_are_connected_to_at_once(hosts: Hosts, torchdeck_home: Path) -> None:
    made = hosts(32)
    credentials = Credentials()

    def name_of(host: int) -> str:
        with connect(target(made, torchdeck_home, host), credentials, NoAsker(), 60) as connection:
            return connection.run("hostname", limit=60).stdout.decode().strip()

    with ThreadPoolExecutor(32) as pool:
        names = list(pool.map(name_of, range(1, 33)))
    assert names == [made.name(host) for host in range(1, 33)]


def test_where_nobody_answers_the_limit_holds(hosts: Hosts, torchdeck_home: Path) -> None:
    made = hosts(1)
    made.block_port(1, "22")
    with pytest.raises(UnreachableError, match=r"node node1: .* did not answer within"):  # not the kernel's
        connect(target(made, torchdeck_home), Credentials(), NoAsker(), 1.0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"port": 23}, "cannot be reached: Connection refused"),
        ({"address": "no-such-host.invalid"}, "the name no-such-host.invalid has no address"),
    ],
)
def test_what_cannot_be_reached_is_said_with_the_reason(
    hosts: Hosts, torchdeck_home: Path, change: dict[str, Any], said: str
) -> None:
    with pytest.raises(UnreachableError, match=said):
        connected(hosts(1), torchdeck_home, **change)


def test_what_does_not_speak_ssh_is_told_from_what_does(hosts: Hosts, torchdeck_home: Path) -> None:
    made = hosts(1)
    serve = (
        "c, _ = socket.create_server(('', 80)).accept(); c.sendall(b'HTTP/1.1 400 no\\r\\n\\r\\n'); c.close()"
    )
    with connected(made, torchdeck_home) as other, other.start(f'python3 -c "import socket; {serve}"'):
        wait_until(lambda: ":80 " in made.enter(1, ["ss", "-ltn"]).stdout, 20, "the web server")
        with pytest.raises(UnreachableError, match="SSH did not start"):
            connected(made, torchdeck_home, port=80)


def test_a_host_that_is_switched_off_is_noticed_at_once(hosts: Hosts, torchdeck_home: Path) -> None:
    made = hosts(1)
    with connected(made, torchdeck_home) as connection, connection.start("sleep 60") as process:
        made.power_off(1)
        with pytest.raises(UnreachableError, match="node node1: the connection was lost"):
            process.read(10, 60)
        assert not connection.alive
        with pytest.raises(UnreachableError, match="node node1: the connection was lost"):
            connection.run("true")


def test_a_cut_line_is_noticed_within_half_a_minute_and_a_short_cut_does_no_harm(
    hosts: Hosts, torchdeck_home: Path
) -> None:
    made = hosts(1)
    with connected(made, torchdeck_home) as connection:
        made.cut(1)
        with pytest.raises(UnansweredError):
            connection.run("true", limit=2)
        made.heal(1)
        assert connection.run("echo back", limit=60).stdout == b"back\n"
        made.cut(1)
        wait_until(lambda: not connection.alive, 40, "the connection to be given up")


def test_what_runs_on_the_node_goes_on_without_the_connection(hosts: Hosts, torchdeck_home: Path) -> None:
    made = hosts(1)
    connection = connected(made, torchdeck_home)
    connection.start("sleep 1; echo over >~/sign")
    connection.close()
    assert not connection.alive
    wait_until((made.home(1) / "sign").exists, 20, "the command to continue")


def test_nobody_is_asked_where_a_key_is_known(hosts: Hosts, torchdeck_home: Path) -> None:
    person = Person()
    connect(target(hosts(1), torchdeck_home), Credentials(), person, LIMIT).close()
    assert person.asked == []


@pytest.mark.parametrize(
    "line",
    [
        "Ciphers aes128-cbc,aes192-cbc,aes256-cbc,3des-cbc",
        "Ciphers aes128-ctr\nMACs hmac-md5,hmac-md5-96,hmac-sha1-96,hmac-md5-etm@openssh.com",
        "KexAlgorithms diffie-hellman-group1-sha1,diffie-hellman-group14-sha1",
    ],
)
def test_what_openssh_does_not_offer_any_more_is_off(hosts: Hosts, torchdeck_home: Path, line: str) -> None:
    """Neither ciphers, nor MACs, nor key exchanges."""
    made = hosts(1)
    made.configure(1, *line.split("\n"))
    with pytest.raises(UnreachableError, match="SSH did not start"):
        connected(made, torchdeck_home)


@pytest.mark.parametrize(
    "line", ["Ciphers aes256-gcm@openssh.com", "Ciphers aes192-ctr\nMACs hmac-sha2-512-etm@openssh.com"]
)
def test_what_openssh_offers_is_on(hosts: Hosts, torchdeck_home: Path, line: str) -> None:
    made = hosts(1)
    made.configure(1, *line.split("\n"))
    with connected(made, torchdeck_home) as connection:
        assert connection.run("true").code == 0
