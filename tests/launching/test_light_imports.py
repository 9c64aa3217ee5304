"""What importing torchdeck and its engine loads, and what torchdeck.launch takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import torchdeck
from torchdeck.config.problems import ConfigError


def test_it_is_called_and_imported_from(tmp_path: Path) -> None:
    """Calling works before and after something of the package was imported."""
    for _ in range(2):
        with pytest.raises(ConfigError, match="no such file"):
            torchdeck.launch(tmp_path / "none.toml")
        from torchdeck.launching.requests import STOP

        assert STOP == "stop"


@pytest.mark.processes
def test_importing_torchdeck_does_not_import_the_engine() -> None:
    """The engine is imported on the first call."""
    code = (
        "import sys, torchdeck\n"
        "assert 'torchdeck.launching' not in sys.modules\n"
        "assert callable(torchdeck.launch)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=20)


@pytest.mark.processes
def test_controller_is_light() -> None:
    """The controller imports neither pydantic nor rich, numpy or torch."""
    code = (
        "import sys, torchdeck.launching.control.controller\n"
        "assert not {'pydantic', 'rich', 'numpy', 'torch', 'argparse', 'subprocess'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=20)


def test_what_is_no_config_is_refused() -> None:
    """The error names what can be given."""
    with pytest.raises(TypeError, match="a path, a table"):
        torchdeck.launch(3)  # type: ignore[arg-type]  # what a program without types may say
