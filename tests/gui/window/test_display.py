"""Whether a window can be opened: found out before Qt would abort."""

import os
import socket
from pathlib import Path

import pytest

from torchdeck_app.window.qt_start import why_no_display, why_no_plugin


def test_without_any_display_it_says_so() -> None:
    assert "neither DISPLAY nor WAYLAND_DISPLAY is set" in why_no_display({})


@pytest.mark.parametrize("platform", ["offscreen", "minimal", "vnc:port=5900", "xcb;offscreen"])
def test_some_platforms_need_none(platform: str) -> None:
    assert why_no_display({"QT_QPA_PLATFORM": platform}) == ""


def test_a_display_that_does_not_answer_is_named() -> None:
    assert why_no_display({"DISPLAY": ":4711"}) == "the display :4711 cannot be opened"
    assert "QT_QPA_PLATFORM is wayland" in why_no_display({"QT_QPA_PLATFORM": "wayland", "DISPLAY": ":0"})


def test_wayland_is_asked_by_its_socket(tmp_path: Path) -> None:
    environment = {"WAYLAND_DISPLAY": "wayland-9", "XDG_RUNTIME_DIR": str(tmp_path)}
    assert why_no_display(environment) != ""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "wayland-9"))
        server.listen()
        assert why_no_display(environment) == ""


def test_a_plugin_that_cannot_be_loaded_names_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "libqxcb.so").write_bytes(b"no library")
    assert "libqxcb.so" in why_no_plugin(tmp_path)


def test_the_environment_of_the_tests_has_a_platform() -> None:
    assert why_no_display(os.environ) == ""
