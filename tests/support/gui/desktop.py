"""A screen of the tests' own, and the real window on it, driven by mouse and keyboard."""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from support.waiting import wait_until

PROGRAMS = ("Xvfb", "xauth", "openbox", "xdotool", "scrot")
HERE = Path(__file__).parent
SOON = 30.0
"""Seconds; what may take longer is looked for less often."""
T = TypeVar("T")


def missing_programs() -> list[str]:
    """What a desktop needs and this machine does not have."""
    return [program for program in PROGRAMS if shutil.which(program) is None]


@dataclass(frozen=True)
class Seen:
    """Something on the screen; `rect` is x, y, width, height in its pixels."""

    name: str
    text: str
    type: str
    rect: tuple[int, int, int, int]
    enabled: bool
    focused: bool

    @property
    def centre(self) -> tuple[int, int]:
        x, y, width, height = self.rect
        return x + width // 2, y + height // 2


class Desktop:
    """An X server and a window manager."""

    def __init__(self, display: str, environment: Mapping[str, str]) -> None:
        self.display = display
        self.environment = dict(environment)

    @contextmanager
    def window(self, folder: Path, *arguments: str, **environment: str) -> Iterator["Window"]:
        """The window, opened as `torchdeck ARGUMENTS` does; it is killed at the end."""
        whole = {"PYSIDE6_OPTION_LAZY": "0"}  # the probe imports Qt before the window can load all of it
        window = Window(self, folder, arguments, {**self.environment, **whole, **environment})
        try:
            yield window
            window.assert_no_strays()
        finally:
            window.kill()

    def do(self, *words: str) -> None:
        """Have xdotool do something."""
        subprocess.run(["xdotool", *words], env=self.environment, check=True, timeout=30)

    def screenshot(self, path: Path) -> None:
        """The whole screen as PNG."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        subprocess.run(["scrot", "--silent", str(path)], env=self.environment, check=True, timeout=30)


@contextmanager
def desktop(width: int = 1280, height: int = 720, *options: str) -> Iterator[Desktop]:
    """A screen of that many pixels, for who has its cookie.

    Args:
        width: pixels.
        height: pixels.
        options: further words of Xvfb's command line.
    """
    read, write = os.pipe()
    with tempfile.TemporaryDirectory(prefix="screen-") as folder, ExitStack() as started:
        cookie, key = Path(folder, "cookie"), secrets.token_hex(16)
        _let_in(cookie, ":0", key)  # the server takes a key of any display for its own
        size = f"{width}x{height}x24"
        server = ["Xvfb", "-displayfd", str(write), "-auth", str(cookie), "-screen", "0", size]
        _start(started, [*server, "-nolisten", "tcp", *options], pass_fds=[write])
        os.close(write)
        with os.fdopen(read) as pipe:
            display = f":{pipe.readline().strip()}"
        _let_in(cookie, display, key)
        environment = {
            **os.environ,
            "DISPLAY": display,
            "XAUTHORITY": str(cookie),
            "QT_QPA_PLATFORM": "xcb",
        }
        _start(started, ["openbox", "--sm-disable"], env=environment)
        yield Desktop(display, environment)


def _let_in(cookie: Path, display: str, key: str) -> None:
    command = ["xauth", "-q", "-f", str(cookie), "add", display, ".", key]
    subprocess.run(command, check=True, timeout=30, stderr=subprocess.DEVNULL)  # it tells of a new file


def _start(started: ExitStack, command: list[str], **given: Any) -> None:
    """Have a program run until `started` ends."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **given)

    def end() -> None:
        process.terminate()
        process.wait(10)

    started.callback(end)


class Window:
    """The window's process, what it shows, and a person's hands."""

    def __init__(
        self,
        on: Desktop,
        folder: Path,
        arguments: tuple[str, ...],
        environment: Mapping[str, str],
        *,
        through: Callable[[list[str]], list[str]] = list,
    ) -> None:
        """Open it in `folder`.

        Args:
            on: what its mouse and keyboard are on.
            folder: also of what the window says, `window.log`.
            arguments: of the command line.
            environment: of the process.
            through: the command that runs a command, for a window that is opened from elsewhere.
        """
        self._desktop = on
        self._log = folder / "window.log"
        # not in the folder: all that lies there is code of runs
        self._socket = Path(tempfile.mkdtemp(prefix="torchdeck-probe-")) / "probe"
        command = [sys.executable, str(HERE / "probed_window.py"), str(self._socket), *arguments]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                through(command), env={**environment, "PYTHONFAULTHANDLER": "1"}, cwd=folder, stderr=log
            )
        wait_until(lambda: self._socket.exists() or self._ended(), 30, "the window to open")
        if self._ended():
            raise AssertionError(
                f"the window did not open, and ended with {self.process.poll()}: {self.said}"
            )

    @property
    def said(self) -> str:
        """Everything on its standard error: it should be nothing."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def look(self, name: str = "", kind: str = "", *, whole: bool = False) -> list[Seen]:
        """What is visible, of the class `kind`, and whose name or text begins with `name`, or is it."""
        return [_seen(value) for value in self._ask({"name": name, "type": kind, "whole": whole})]

    def focus(self) -> Seen | None:
        """What has the keyboard."""
        return next((_seen(value) for value in self._ask({"focus": True})), None)

    def pulse(self) -> "Held":
        """How long the window has not looked at its mouse and keyboard since this was asked last."""
        return Held(**self._ask({"pulse": True}))

    def settle(self) -> None:
        """Wait until it has made its places, and flows."""
        wait_until(lambda: self.pulse().longest < 0.1, 60, "the window to be at rest", every=0.5)

    def assert_flowed(self, what: str, limit: float = 1.0) -> None:
        """Its thread was not held for `limit` seconds since this was asked last. Benchmarks say how long."""
        held = self.pulse()
        assert held.longest < limit, (
            f"{what}: the window was stalled for {held.longest:.2f} s at\n{held.where}"
        )

    def wait(self, name: str, kind: str = "", seconds: float = 20) -> Seen:
        """The first that fits, once it is there; else what is there instead is said."""
        try:
            return self.wait_until(lambda: self.look(name, kind), f"{kind} {name!r}", seconds)[0]
        except AssertionError as error:
            if self._ended():
                raise
            in_sight = dict.fromkeys(seen.text or seen.name for seen in self.look() if seen.text or seen.name)
            raise AssertionError(f"{error}; in sight: {' | '.join(in_sight)[:4000]}") from error

    def wait_until(self, ready: Callable[[], T], what: str, seconds: float = 20) -> T:
        """What `ready` gives once it is true."""

        def look() -> T:
            if self._ended():
                raise AssertionError(
                    f"the window ended with {self.process.poll()} while waiting for {what}: {self.said}"
                )
            return ready()

        # each look goes through all of its widgets, in its own thread
        return wait_until(look, seconds, what, every=0.2 if seconds <= SOON else 0.5)

    def click(
        self, name: str, kind: str = "", button: int = 1, seconds: float = 20, *, whole: bool = True
    ) -> Seen:
        """Press what is called `name`, or begins with it if that is not the whole, once it is enabled."""

        def ready() -> list[Seen]:
            return [seen for seen in self.look(name, kind, whole=whole) if seen.enabled]

        seen = self.wait_until(ready, f"{kind} {name!r} to be pressed", seconds)[0]
        x, y = seen.centre
        self._desktop.do("mousemove", str(x), str(y), "click", str(button))
        return seen

    def key(self, *keys: str) -> None:
        """Press keys such as `ctrl+Return`, one after the other, in the window or dialog in front."""
        self.wait_until(lambda: self._ask({"keyboard": True}), "what is in front to have the keyboard")
        self._desktop.do("key", "--clearmodifiers", *keys)

    def type(self, text: str) -> None:
        """Type on the keyboard, in the window or dialog in front."""
        self.wait_until(lambda: self._ask({"keyboard": True}), "what is in front to have the keyboard")
        self._desktop.do("type", "--delay", "5", "--", text)

    def assert_no_strays(self) -> None:
        """No part of it was on the screen as a window of its own; nothing is known once it has ended."""
        if not self._ended():
            strays = self._ask({"strays": True})
            assert not strays, f"shown as windows of their own: {strays}"

    def kill(self) -> None:
        """As `kill -9` does."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)

    def _ask(self, question: dict[str, Any]) -> Any:
        def answered() -> list[Any]:
            assert not self._ended(), f"the window ended with {self.process.poll()}: {self.said}"
            try:
                return [self._answer(question)]
            except (ConnectionResetError, ConnectionRefusedError):
                return []  # its socket is there a moment before anybody listens on it

        answer = wait_until(answered, 10, "the window to answer", every=0.1)[0]
        assert not (isinstance(answer, dict) and "error" in answer), answer["error"]
        return answer

    def _answer(self, question: dict[str, Any]) -> Any:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(30)
            line.connect(str(self._socket))
            line.sendall(json.dumps(question).encode() + b"\n")
            return json.loads(line.makefile().readline())

    def _ended(self) -> bool:
        return self.process.poll() is not None


@dataclass(frozen=True)
class Held:
    """What the window's pulse tells."""

    pid: int
    """Of the window's own process."""
    longest: float
    """Seconds between two turns of the event loop, less what was waited for a core."""
    where: str
    """Of a long one, what the threads did in the middle of it."""


def _seen(value: dict[str, Any]) -> Seen:
    x, y, width, height = value.pop("rect")
    return Seen(**value, rect=(x, y, width, height))
