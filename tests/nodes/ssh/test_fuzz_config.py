"""SSH configs of strangers: what they say of a host, or a TargetError. No command of theirs runs."""

import time
from pathlib import Path

import pytest
from hypothesis import strategies as st

from support.fuzz import hostile
from support.fuzz.fuzzing import read_all
from support.fuzz.refusals import refused
from support.no_processes import no_processes
from torchdeck.nodes.ssh.config_file import SshConfig
from torchdeck.nodes.ssh.errors import TargetError

WORDS = st.sampled_from(
    [
        *("*", "node", "node*", "!node", "*a*a*a*a*a*a*a*b", "a" * 5000, '"a b"', "'", '"', "%h", "%%", "%x"),
        *(
            "-oProxyCommand=x",
            "~nobody-of-that-name/x",
            "/dev/zero",
            "/proc/self/status",
            "config",
            "*/*/*/*",
        ),
        *(
            "9" * 400,
            "-1",
            "\u202e",
            "\x1b]52;c;\x07",
            "#",
            "none",
            "all",
            "host",
            "final",
            "$(x)",
            "${X}",
            "=",
        ),
        *(
            "exec",
            'ex""ec',
            r"e\xec",
            '"exec"',
            "!ex''ec",
            "EXEC",
            "=exec",
            "exec=true",
            "true",
            '"exec true"',
        ),
        *("originalhost", "user", "canonical", "!all"),
    ]
)
KEYWORDS = st.sampled_from(
    [
        *(
            "Host",
            "Match",
            "Include",
            "HostName",
            "Port",
            "User",
            "ProxyJump",
            "IdentityFile",
            "ServerAliveInterval",
        ),
        *("Match", "MATCH=", "match =", '"Match"', "ProxyCommand", "KnownHostsCommand", "LocalCommand"),
        *("ConnectTimeout", "host=", "HOST", "#", "SendEnv", "LocalForward", "KbdInteractiveDevices", ""),
    ]
)
LINES = st.builds("{} {}".format, KEYWORDS, st.lists(WORDS, max_size=4).map(" ".join))
CONFIGS = (
    st.lists(LINES, max_size=10).map("\n".join).map(lambda text: text.encode("utf-8", "surrogateescape"))
)


def read_config(content: bytes, place: Path) -> None:
    path = place / "config"
    path.write_bytes(content)
    config = SshConfig((path,))
    with no_processes():
        refused(lambda: config.lookup("node"), TargetError)
        refused(config.host_names, TargetError)


def test_any_config() -> None:
    read_all(read_config, CONFIGS | CONFIGS.flatmap(hostile.damaged))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Include {folder}/config\nInclude {folder}/config\n", "more than 256 files|more than 16 deep"),
        ("Include {folder}/*\n", "more than 256 files|more than 16 deep"),
        ("Include /*/*/*/*/*\n", "wildcards are allowed in at most 2"),
        ("User x\n" * 30_000, "more than 20000 settings"),
        ("#" * (1 << 21), "is too large"),
    ],
)
def test_a_config_without_end_is_refused_soon(tmp_path: Path, text: str, why: str) -> None:
    """Files that include themselves twice are 2^16 files."""
    for name in ("config", "other"):
        (tmp_path / name).write_text(text.format(folder=tmp_path))
    begun = time.thread_time()
    with pytest.raises(TargetError, match=why):
        SshConfig((tmp_path / "config",)).lookup("node")
    assert time.thread_time() - begun < 10


@pytest.mark.parametrize(
    "line",
    [
        "User a" + " " * 100_000 + "b",
        "User " + "a " * 50_000 + "# x",
        "User " + "'" * 99_999,
        "User" + " " * 99_999,
    ],
)
def test_a_long_line_takes_no_longer_than_its_length(tmp_path: Path, line: str) -> None:
    (tmp_path / "config").write_text(f"{line}\n" * 5)
    begun = time.thread_time()
    SshConfig((tmp_path / "config",)).host_names()
    assert time.thread_time() - begun < 5


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    """It is not waited for."""
    with pytest.raises(TargetError, match="not a regular file"):
        SshConfig((Path("/dev/zero"),)).lookup("node")


def test_an_include_of_nobody_names_no_file(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("Include ~no one-of-that-name/x\nHost a\n")
    assert SshConfig((tmp_path / "config",)).host_names() == ["a"]
