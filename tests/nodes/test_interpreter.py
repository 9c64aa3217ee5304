"""What an interpreter has, without importing it."""

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.system.deepspeed_python import ABSENT, deepspeed_python
from torchdeck.nodes.interpreter import installed_version, probe_interpreter


def test_our_own_interpreter_is_known_without_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual case costs no process."""
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("a process was started"))
    facts = probe_interpreter()
    assert facts.executable == sys.executable
    assert facts.python == ".".join(map(str, sys.version_info[:3]))
    assert facts.numpy is not None
    assert facts == probe_interpreter(sys.executable)


@pytest.mark.processes
def test_torch_is_not_imported() -> None:
    """Asking about torch does not load it: that would take seconds."""
    code = (
        "import sys; from torchdeck.nodes.interpreter import probe_interpreter as p; p(); "
        "print('torch' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True, timeout=60) == "False\n"


@pytest.mark.processes
def test_another_interpreter_is_asked(tmp_path: Path) -> None:
    """A link to an interpreter is another one: it may lead into a virtual environment."""
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    facts = probe_interpreter(str(link))
    assert facts.executable == str(link)
    assert facts.python == ".".join(map(str, sys.version_info[:3]))
    assert facts.error == ""


@pytest.mark.processes
def test_the_working_directory_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A json.py of the user's does not get in the way."""
    (tmp_path / "json.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    assert probe_interpreter(str(link)).error == ""


@pytest.mark.processes
@pytest.mark.parametrize(
    ("body", "words"),
    [
        (None, "no such file"),
        ("#!/bin/sh\necho oops >&2; exit 4", "exit code 4: oops"),
        ("#!/bin/sh\necho 17", "not a working Python"),
        ("#!/bin/sh\nexec sleep 60", "did not answer within 0.3 s"),
        ("neither script nor program", "could not be started"),
    ],
)
def test_what_is_no_python_says_why(tmp_path: Path, body: str | None, words: str) -> None:
    """Every way in which it can fail is one sentence."""
    path = tmp_path / "python"
    if body is not None:
        path.write_text(body)
        path.chmod(0o755)
    facts = probe_interpreter(str(path), limit=0.3 if body and "sleep" in body else 20)
    assert words in facts.error
    assert (facts.python, facts.torch) == ("", None)


@pytest.mark.processes
def test_a_command_is_found_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`interpreter = "python3"` means what the shell would start."""
    (tmp_path / "mypython").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert probe_interpreter("mypython").executable == str(tmp_path / "mypython")
    assert probe_interpreter("notthere").error == "there is no such file"


def test_versions_come_from_metadata() -> None:
    """As pip knows them, for packages with and without a dist-info of the plain name."""
    assert installed_version("pytest") == pytest.__version__
    assert installed_version("no-such-package") is None


@pytest.mark.processes
def test_deepspeed_is_looked_for_where_it_is_wanted() -> None:
    """In our own interpreter as in the one that has it beside the sources."""
    has_it = importlib.util.find_spec("deepspeed") is not None
    assert (probe_interpreter(deepspeed=True).deepspeed is not None) == has_it
    other = deepspeed_python()
    if other is None:
        pytest.skip(ABSENT)
    assert str(probe_interpreter(other, deepspeed=True).deepspeed)[0].isdigit()


def test_a_folder_of_modules_that_may_not_be_read_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Python passes over it: a PYTHONPATH may name a folder of another user's."""
    iterdir = Path.iterdir

    def denied(path: Path) -> Iterator[Path]:
        if str(path) == "/closed":
            raise PermissionError(13, "Permission denied", str(path))
        return iterdir(path)

    monkeypatch.setattr(Path, "iterdir", denied)
    monkeypatch.setattr(sys, "path", ["/closed", *sys.path])
    assert installed_version("pytest") == pytest.__version__
