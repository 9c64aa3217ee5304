"""Whether this kernel can close a store to other users."""

import socket
from pathlib import Path

import pytest

from torchdeck.contract.network import peer_owner, private_socket
from torchdeck.contract.network.private_socket import KEY_BYTES, pass_only, sign, why_open


def test_this_kernel_can() -> None:
    """Tests of the store need it, too."""
    assert why_open() == ""


def test_a_kernel_that_tells_no_owners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As under gVisor, or without /proc."""
    monkeypatch.setattr(
        peer_owner, "_TABLES", {str(tmp_path / "tcp"): next(iter(peer_owner._TABLES.values()))}
    )
    assert why_open() == "the kernel's table of connections does not show our own (/proc/net/tcp)"


def test_a_kernel_that_neither_signs_nor_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real calls fail for a socket that is no TCP socket over IPv4, and for a program without an end."""
    with socket.socket(socket.AF_UNIX) as other:
        assert not sign(other, bytes(KEY_BYTES))
    monkeypatch.setattr(private_socket, "sign", lambda *_: False)
    monkeypatch.setattr(private_socket, "_program", lambda _: bytes(8))
    with socket.socket() as listener, pytest.raises(OSError, match="Invalid argument"):
        pass_only(listener, ())
    assert why_open() == "the kernel neither signs nor filters connections (Invalid argument)"
