"""The port and the host name that ranks meet by."""

import socket
import threading

from support.system.free_port import free_port
from support.values.checked_config import CheckedConfig, assert_refused
from torchdeck.launching.preflight.network import HostNameCheck


def test_a_port_in_use_is_refused(checked: CheckedConfig) -> None:
    """Only a fixed port is looked at, and only when it is taken it is refused."""
    with socket.socket() as taken:
        port = free_port()
        taken.bind(("", port))
        taken.listen()
        results = checked.script(distributed={"rendezvous": {"port": port}})
        assert_refused(results["port"], f"port {port} is in use", '"auto"')
    assert checked.script(distributed={"rendezvous": {"port": port}})["port"].status == "ok"
    assert "port" not in checked.script()


def test_an_unknown_host_name_is_a_warning() -> None:
    """torchrun would wait a minute for it; the line for /etc/hosts is given."""

    def unknown() -> None:
        raise socket.gaierror(-2, "Name or service not known")

    check = HostNameCheck("localhost", unknown).result(limit=30)
    assert (check.status, "/etc/hosts" in check.fix) == ("warning", True)
    assert "does not resolve" in check.what


def test_a_resolver_that_hangs_is_not_waited_for() -> None:
    """The verdict comes at the limit."""
    release = threading.Event()

    def hanging() -> None:
        release.wait(30)

    check = HostNameCheck("localhost", hanging).result(limit=0.1)
    release.set()
    assert (check.status, "more than 0.1 s" in check.what) == ("warning", True)
