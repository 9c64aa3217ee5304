"""`torchdeck --no-gui` with torchrun and two ranks: start, end, failure, Ctrl-C, kills, attach."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.agents.controlled_run import (
    controller_events,
    controllers,
    nothing_left,
    wait_for_state,
    wait_until_over,
)
from support.cli.command import COMMAND, Command, interrupt, wait_until_gone
from support.waiting import wait_until
from torchdeck.config.loader import load_config
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.processes import processes_of_run
from torchdeck.launching.launcher import start_controller
from torchdeck.runs.follower import read_run

COUNTING = """
    import os, sys, time
    from pathlib import Path
    limit = time.monotonic() + 120
    number = 0
    while not Path("@folder/enough").exists() and time.monotonic() < limit:
        print("line", number, flush=True)
        number += 1
        time.sleep(0.05)
    print("last", flush=True)
"""
STUBBORN = """
    import os, signal, subprocess, sys, time
    signal.signal(signal.SIGTERM, lambda *_: print("not yet", flush=True))
    # a data loader's worker: a session of its own, and deaf
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    code = f"{deaf}; print('up', flush=True); time.sleep(99)"
    subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    limit = time.monotonic() + 99
    while time.monotonic() < limit:
        time.sleep(0.1)
"""


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    """`torchdeck` with a home whose runs leave nothing behind."""
    home = tmp_path / "home"
    with nothing_left(home):
        yield Command(home)


def script(folder: Path, text: str) -> Path:
    path = folder / "train.py"
    # not by __file__: a run executes a copy of its own
    path.write_text(textwrap.dedent(text).replace("@folder", str(folder)))
    return path


def lines_of(run: RunLayout, rank: int) -> list[str]:
    path = run.attempt(1).rank(rank).stdout
    return path.read_text().splitlines() if path.exists() else []


def test_script_runs_unchanged_and_every_command_shows_it(command: Command, tmp_path: Path) -> None:
    """Arguments arrive, output is there by rank, and list, show, logs and files agree."""
    ok = script(
        tmp_path,
        """
        import os, sys, torch, torch.distributed as dist
        from pathlib import Path
        dist.init_process_group("gloo")
        value = torch.tensor([float(dist.get_rank() + 1)])
        dist.all_reduce(value)
        print("sum", value.item(), sys.argv[1:])
        (Path(__file__).parent / f"beside{dist.get_rank()}").write_text("result")
        (Path("@folder") / f"weights{dist.get_rank()}").write_text(os.environ.get("TORCHDECK_UMASK", "none"))
        dist.destroy_process_group()
        """,
    )
    done = command.run(
        "--no-gui", "--json", "--script", ok, "--nproc", "2", "--", "--lr", "0.1", "--", "--set"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    said = "sum 3.0 ['--lr', '0.1', '--', '--set']"
    assert sorted(event["rank"] for event in events if event.get("text") == said) == [0, 1]
    states = [event["state"] for event in events if event["event"] == "state"]
    assert states[-1] == "SUCCEEDED"
    assert states.index("RUNNING") > states.index("STARTING")
    assert events[-1]["event"] == "end"
    assert events[-1]["exit_code"] == 0
    run = command.the_run()
    (row,) = command.json("runs", "list")
    assert (row["id"], row["state"], row["name"]) == (run.root.name, "SUCCEEDED", "train")
    assert row["created"] < row["started"] < row["ended"]
    assert command.run("runs", "logs", "latest", "--rank", "1").stdout == f"{said}\n"
    assert load_config(run.config).config.run.args == ["--lr", "0.1", "--", "--set"]
    wait_until_gone(run)
    assert oct(run.root.stat().st_mode)[-3:] == "700"
    # only the run directory is private: what ranks write elsewhere gets the umask of the shell that launched
    (tmp_path / "mine").touch()
    weights = tmp_path / "weights0"
    assert weights.stat().st_mode == (tmp_path / "mine").stat().st_mode
    assert weights.read_text() == "none"
    assert [(tmp_path / f"beside{rank}").read_text() for rank in range(2)] == ["result"] * 2
    said = f"the program wrote 2 files next to its code: they are in {tmp_path} now (beside0, beside1)"
    assert said in command.run("runs", "show", "latest").stdout


def test_failed_rank_is_named_with_its_traceback(command: Command, tmp_path: Path) -> None:
    """The terminal says which rank failed and why; exit code 1; plain output carries each rank's lines."""
    bad = script(
        tmp_path,
        """
        import os, sys, time
        from pathlib import Path
        told = Path("@folder/told")
        print("starting", os.environ["RANK"], flush=True)
        if os.environ["RANK"] == "1":
            while not told.exists():  # torchrun ends rank 0 as soon as this one has failed
                time.sleep(0.02)
            raise ValueError("no such thing")
        told.touch()
        time.sleep(60)
        """,
    )
    done = command.run("--no-gui", "--script", bad, "--nproc", "2")
    assert done.returncode == 1
    assert "[rank 0] starting 0" in done.stdout
    summary = done.stdout[done.stdout.index("FAILED") :]
    assert "rank 1" in summary
    assert "ValueError: no such thing" in done.stdout
    assert "[rank 1] ValueError: no such thing" in done.stderr
    assert "\n  An exception in train.py\n" in command.run("runs", "show", "latest").stdout
    shown = command.json("runs", "show", "latest")
    assert (shown["first_failure"]["rank"], shown["first_failure"]["code"]) == (1, 1)
    assert shown["advice"]["title"] == "An exception in train.py"
    line = next(number for number, text in enumerate(bad.read_text().splitlines(), 1) if "no such" in text)
    assert shown["advice"]["text"].startswith(f"ValueError at line {line} of train.py: fix it there.")


def test_first_interrupt_stops_and_second_ends_everything(command: Command, tmp_path: Path) -> None:
    """Ctrl-C asks; a script that does not listen is ended by the second, its children too."""
    stubborn = script(tmp_path, STUBBORN)
    bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    quick = ("--set", "launch.kill_grace=1")
    with command.start("--no-gui", *quick, "--script", stubborn, "--nproc", "2") as front:
        run = command.the_run()
        wait_until(lambda: lines_of(run, 0) and lines_of(run, 1), 60, "the children of both ranks")
        assert len([p for p in processes_of_run(run.root.name) if b"SIG_IGN" in cmdline(p.pid)]) == 2
        wait_for_state(run, "RUNNING")  # before, what is stopped has launch.kill_grace and no more
        interrupt(front)
        wait_for_state(run, "STOPPING")
        wait_until(lambda: "not yet" in lines_of(run, 0), 20, "SIGTERM to reach rank 0")
        interrupt(front)
        output, _ = front.communicate(timeout=60)
    assert front.returncode == 130, output
    assert "Ctrl-C again" in output
    assert "CANCELLED" in output
    assert processes_of_run(run.root.name) == []
    assert bystander.poll() is None
    bystander.communicate(b"\n")
    requests = [event.fields["kind"] for event in controller_events(run, "request")]
    assert requests == ["stop", "stop_now"]
    assert command.json("runs", "show", "latest")["resumable"] is False


def cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def in_terminal(command: Command, *arguments: str | Path) -> tuple[subprocess.Popen[bytes], int]:
    """A front end whose controlling terminal is ours to close."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, b"\x28\x00\xa0\x00\0\0\0\0")

    def own_terminal() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        env={**command.environment(), "TERM": "xterm-256color"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        preexec_fn=own_terminal,  # noqa: PLW1509 - the test has no threads
    )
    os.close(slave)
    return process, master


def read_until(master: int, text: bytes, seconds: float) -> bytes:
    """What a terminal shows until `text` is in it."""
    os.set_blocking(master, False)
    shown = bytearray()

    def there() -> bool:
        try:
            shown.extend(os.read(master, 65536))
        except BlockingIOError:
            pass
        except OSError:
            return True  # the other side is closed
        return text in shown

    wait_until(there, seconds, f"{text!r} on the terminal")
    return bytes(shown)


def test_run_outlives_terminal_and_controller_and_no_line_is_missing(
    command: Command, tmp_path: Path
) -> None:
    """Terminal closed, controller killed, two controllers: the run continues; attach shows every line."""
    counting = script(tmp_path, COUNTING)
    front, master = in_terminal(command, "--no-gui", "--script", counting, "--nproc", "2")
    shown = read_until(master, b"line 3", 60)
    assert b"\x1b[" in shown
    run = command.the_run()
    os.close(master)  # the terminal window is closed: SIGHUP, and writing fails
    assert wait_until(lambda: front.poll() is not None, 20, "the front end to leave")
    assert front.returncode not in (0, 1)

    (first,) = controllers(run)
    assert first.is_alive()
    first.send(signal.SIGKILL)
    with command.start("runs", "attach", run.root.name) as attached:
        wait_until(lambda: len(controllers(run)) == 2, 20, "attach to start a controller")
        later = start_controller(run)
        wait_until(lambda: controller_events(run, "superseded"), 20, "the earlier controller to give way")
        with command.start("runs", "attach", run.root.name) as leaving:
            wait_for_state(run, "RUNNING")
            leaving.terminate()
            said, _ = leaving.communicate(timeout=20)
        assert leaving.returncode in (128 + signal.SIGTERM, -signal.SIGTERM), said
        assert command.json("runs", "show", "latest")["state"] == "RUNNING"
        (tmp_path / "enough").touch()
        output, _ = attached.communicate(timeout=60)
        wait_until(lambda: later.exit_code() is not None, 20, "the later controller to end")
    assert attached.returncode == 0, output
    assert wait_until_over(run).state == "SUCCEEDED"
    for rank in (0, 1):
        count = len(lines_of(run, rank)) - 1
        expected = [f"line {number}" for number in range(count)] + ["last"]
        assert lines_of(run, rank) == expected
        shown_lines = [line for line in output.splitlines() if line.startswith(f"[rank {rank}] ")]
        assert shown_lines == [f"[rank {rank}] {line}" for line in expected]


def test_detached_run_is_stopped_from_elsewhere(command: Command, tmp_path: Path) -> None:
    """--detach prints the id and returns; stop --now ends the run in any state, before torchrun is up too."""
    counting = script(tmp_path, COUNTING)
    done = command.run("--no-gui", "--detach", "--script", counting, "--nproc", "2")
    assert done.returncode == 0, done.stderr
    run = command.the_run()
    assert done.stdout == f"{run.root.name}\n"
    stopped = command.run("runs", "stop", run.root.name, "--now")
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    assert "CANCELLED" in stopped.stdout
    wait_until_gone(run)
    wait_until(lambda: not read_run(run).processes_alive, 20, "the agent to leave, too")
    again = command.run("runs", "stop", run.root.name)
    assert again.returncode == 3
    assert command.run("runs", "attach", "latest").returncode == 130
    assert command.run("runs", "delete", "latest").returncode == 0
    assert command.runs() == []


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--script", "none.py", "--nproc", "2"], 3, "none.py does not exist"),
        (["none.toml"], 2, "no such file"),
        (["--script", "none.py", "--set", "training.lrr=1"], 2, "training.lr"),
        (["--script", "x", "--module", "y"], 2, "one of the two"),
    ],
)
def test_bad_input_is_one_sentence_and_no_run(
    command: Command, arguments: list[str], code: int, said: str
) -> None:
    """Each says what is wrong and what to do; nothing is started."""
    done = command.run("--no-gui", *arguments)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert command.runs() == []


def test_unusable_home_refuses_the_start(tmp_path: Path) -> None:
    """A home that cannot be made is a sentence and exit code 3."""
    done = Command(Path("/proc/nowhere")).run("--no-gui", "--script", script(tmp_path, ""), "--nproc", "1")
    assert done.returncode == 3
    assert "TORCHDECK_HOME" in done.stderr
