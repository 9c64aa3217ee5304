"""What never goes."""

import pytest

from torchdeck.launch.code.secret_files import holds_key, is_secret_name


@pytest.mark.parametrize(
    "name",
    [
        *(
            ".env",
            ".env.local",
            ".envrc",
            "prod.env",
            ".git",
            ".ssh",
            "id_rsa",
            "id_ed25519",
            "id_ed25519_work",
        ),
        *("server.pem", "SERVER.PEM", "tls.key", "cert.p12", "putty.ppk", ".netrc", ".pypirc", ".aws"),
    ],
)
def test_names_that_never_go(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["env.py", "id_rsa.pub", "keys.py", "environment", "key", ".gitignore", "a.envy"]
)
def test_names_that_go(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    "head",
    [
        b"-----BEGIN OPENSSH PRIVATE KEY-----\nabc",
        b"-----BEGIN PRIVATE KEY-----",
        b"Bag Attributes\n-----BEGIN RSA PRIVATE KEY-----",
        b"-----BEGIN PGP PRIVATE KEY BLOCK-----\n",
        b"PuTTY-User-Key-File-3: ssh-ed25519",
    ],
)
def test_contents_that_never_go(head: bytes) -> None:
    assert holds_key(head)


@pytest.mark.parametrize(
    "head",
    [
        b"-----BEGIN CERTIFICATE-----",
        b"-----BEGIN PUBLIC KEY-----",
        b'x = "-----BEGIN PRIVATE KEY-----"',
        b"",
    ],
)
def test_contents_that_go(head: bytes) -> None:
    assert not holds_key(head)
