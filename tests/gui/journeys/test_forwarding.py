"""The window of a machine far away: over SSH, on a screen that has no OpenGL."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from PySide6.QtGui import QImage

from support.gui import desktop_over_ssh
from support.gui.desktop import Desktop, Window, desktop
from support.gui.desktop_over_ssh import ForwardingHost, forwarding_host
from support.waiting import wait_until

DRIVERS = ("libGLX_", "libEGL_", "_dri.so", "libgallium", "libnvidia", "libvulkan", "libcuda")
"""How drivers of OpenGL, Vulkan and CUDA are called, whose front ends Qt is linked to."""
LOGIN = ("HOME", "TORCHDECK_HOME", "PATH", "LANG")
"""What the window needs of the environment."""


@pytest.fixture
def far_screen() -> Iterator[Desktop]:
    """A screen of 1280 × 720 without OpenGL."""
    with desktop(1280, 720, "-extension", "GLX") as made:
        yield made


@pytest.fixture
def host(tmp_path: Path) -> Iterator[ForwardingHost]:
    missing = desktop_over_ssh.missing_programs()
    if missing:
        pytest.skip(f"X forwarding needs {', '.join(missing)}: packages openssh-server and openssh-client")
    with forwarding_host(tmp_path) as made:
        yield made


@contextmanager
def forwarded(screen: Desktop, host: ForwardingHost, option: str) -> Iterator[Window]:
    """The window, opened through `ssh OPTION`."""
    given = {name: os.environ[name] for name in LOGIN if name in os.environ}

    def through(command: list[str]) -> list[str]:
        return host.command(command, given, option)

    window = Window(screen, host.folder, (), screen.environment, through=through)
    try:
        yield window
    finally:
        window.kill()


def test_the_window_is_painted_and_driven_over_ssh(
    far_screen: Desktop, host: ForwardingHost, pictures: Path
) -> None:
    with forwarded(far_screen, host, "-X") as window:
        window.click("Runs", "QToolButton")
        window.wait("No runs yet")
        window.wait_until(lambda: is_painted(far_screen, pictures / "forwarded.png"), "it to be painted")
        process = Path(f"/proc/{window.pulse().pid}")
        assert "DISPLAY=localhost:" in (process / "environ").read_text(), "it is not forwarded"
        mapped = (process / "maps").read_text()
        assert not [name for name in DRIVERS if name in mapped]
        window.key("ctrl+q")
        assert window.process.wait(20) == 0
        assert window.said == ""


def test_the_window_ends_with_its_connection(far_screen: Desktop, host: ForwardingHost) -> None:
    with forwarded(far_screen, host, "-Y") as window:
        window.wait("What do you want to run?")
        process = Path(f"/proc/{window.pulse().pid}")
        window.kill()
        wait_until(lambda: not process.exists(), 20, "the window to end")


def is_painted(screen: Desktop, picture: Path) -> bool:
    """The window fills the screen: it has its own ground, and not one colour only."""
    screen.screenshot(picture)
    image = QImage(str(picture))
    colours = {image.pixel(x, y) for x in range(0, 1280, 8) for y in range(40, 720, 8)}
    return len(colours) > 20 and image.pixelColor(900, 600).name() == "#fafafa"
