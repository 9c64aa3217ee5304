"""Known host keys: what files say, compared with ssh-keygen, and what is made of it."""

from __future__ import annotations

import base64
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.hosts.hosts import make_key
from torchdeck.nodes.ssh.host_keys import (
    KnownKey,
    Verdict,
    fingerprint,
    judge,
    known_types,
    read_known,
    trust,
)

KEY = base64.b64encode(b"key one").decode()
OTHER = base64.b64encode(b"key two").decode()


def known(tmp_path: Path, text: str) -> list[KnownKey]:
    file = tmp_path / "known_hosts"
    file.write_text(text)
    return read_known([tmp_path / "missing", file])


@pytest.mark.parametrize(
    ("text", "names", "verdict"),
    [
        ("", ("a",), Verdict.UNKNOWN),
        (f"a ssh-ed25519 {KEY}\n", ("a",), Verdict.KNOWN),
        (f"a ssh-ed25519 {KEY} a comment\n", ("a",), Verdict.KNOWN),
        (f"b,A,c ssh-ed25519 {KEY}\n", ("a",), Verdict.KNOWN),
        (f"a ssh-ed25519 {OTHER}\n", ("a",), Verdict.CHANGED),
        (f"a ssh-ed25519 {OTHER}\na ssh-rsa {KEY}\n", ("a",), Verdict.KNOWN),
        (f"b ssh-ed25519 {OTHER}\n", ("a",), Verdict.UNKNOWN),
        (f"*.lab ssh-ed25519 {OTHER}\n", ("x.lab",), Verdict.CHANGED),
        (f"*.lab,!x.lab ssh-ed25519 {OTHER}\n", ("x.lab",), Verdict.UNKNOWN),
        (f"[a]:22 ssh-ed25519 {OTHER}\n", ("a",), Verdict.UNKNOWN),
        (f"[a]:7 ssh-ed25519 {KEY}\n", ("[a]:7", "a"), Verdict.KNOWN),
        (f"a ssh-ed25519 {KEY}\n", ("[a]:7", "a"), Verdict.KNOWN),
        (f"a ssh-ed25519 {OTHER}\n", ("[a]:7", "a"), Verdict.UNKNOWN),
        (f"a ssh-ed25519 {KEY}\n@revoked * ssh-ed25519 {KEY}\n", ("a",), Verdict.REVOKED),
        (f"@revoked a ssh-ed25519 {OTHER}\n", ("a",), Verdict.UNKNOWN),
        (f"@cert-authority a ssh-ed25519 {KEY}\n", ("a",), Verdict.UNKNOWN),
        (f"# a ssh-ed25519 {KEY}\nnonsense\na ssh-ed25519 not-base64!\n", ("a",), Verdict.UNKNOWN),
    ],
)
def test_verdicts(tmp_path: Path, text: str, names: tuple[str, ...], verdict: Verdict) -> None:
    assert judge(known(tmp_path, text), names, b"key one").verdict is verdict


def test_a_verdict_names_the_line_it_rests_on(tmp_path: Path) -> None:
    line = judge(known(tmp_path, f"# mine\na ssh-ed25519 {OTHER}\n"), ("a",), b"key one").because
    assert line is not None
    assert (line.file, line.line) == (tmp_path / "known_hosts", 2)


def test_types_that_a_host_is_known_by_are_named_once(tmp_path: Path) -> None:
    lines = known(tmp_path, f"a ssh-rsa {KEY}\nb x {KEY}\n*  ssh-ed25519 {KEY}\na ssh-rsa {OTHER}\n")
    assert known_types(lines, ("a",)) == ["ssh-rsa", "ssh-ed25519"]


@pytest.mark.processes
def test_a_fingerprint_is_what_ssh_keygen_prints(tmp_path: Path) -> None:
    key = make_key(tmp_path / "key")
    blob = base64.b64decode((tmp_path / "key.pub").read_text().split()[1])
    printed = subprocess.run(
        ["ssh-keygen", "-lf", key], capture_output=True, text=True, check=True, timeout=20
    )
    assert fingerprint(blob) == printed.stdout.split()[1]


def test_what_is_trusted_is_known_and_what_was_there_stays(tmp_path: Path) -> None:
    file = tmp_path / "new folder" / "known_hosts"
    trust(file, "a", "ssh-ed25519", b"key one")
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text(file.read_text() + f"old ssh-ed25519 {OTHER}")  # no line break at the end
    trust(file, "[b]:7", "ssh-ed25519", b"key one")
    lines = read_known([file])
    assert [line.names for line in lines] == ["a", "old", "[b]:7"]
    assert judge(lines, ("[b]:7", "b"), b"key one").verdict is Verdict.KNOWN


names = st.sampled_from(["host", "host.lab", "[host]:2222", "10.0.0.1"])
lines = st.lists(
    st.sampled_from(
        ["host", "host.lab", "*.lab", "h?st", "*", "!host", "!*.lab", "10.0.0.*", "[host]:2222", "[*]:2222"]
    ),
    min_size=1,
    max_size=3,
)


@pytest.mark.processes
@settings(deadline=None)
@given(text=st.lists(st.tuples(lines, st.booleans()), min_size=1, max_size=3), name=names)
def test_the_lines_about_a_host_are_those_that_ssh_keygen_finds(
    text: list[tuple[list[str], bool]], name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Hashed, too: those are written by ssh-keygen itself."""
    folder = tmp_path_factory.mktemp("known")
    key = (folder / "k.pub") if (folder / "k.pub").exists() else make_key(folder / "k").with_name("k.pub")
    kind, blob = key.read_text().split()[:2]
    plain = "".join(f"{','.join(patterns)} {kind} {blob}\n" for patterns, hashed in text if not hashed)
    names_only = [p for patterns, hashed in text if hashed for p in patterns if not set(p) & set("*?!")]
    to_hash = folder / "hashed"
    to_hash.write_text("".join(f"{one} {kind} {blob}\n" for one in names_only))
    if names_only:
        subprocess.run(["ssh-keygen", "-q", "-Hf", to_hash], check=True, capture_output=True, timeout=20)
    file = folder / "known_hosts"
    file.write_text(plain + to_hash.read_text())
    asked = subprocess.run(
        ["ssh-keygen", "-F", name, "-f", file], capture_output=True, text=True, check=False, timeout=20
    )
    found = [
        int(number) for number in re.findall(r"^# Host .* found: line (\d+)", asked.stdout, re.MULTILINE)
    ]
    assert [line.line for line in read_known([file]) if line.is_about(name)] == found
