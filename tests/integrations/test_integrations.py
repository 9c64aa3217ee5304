"""Other frameworks are imported only when they are asked for."""

import subprocess
import sys

import pytest

import torchdeck.integrations

pytestmark = pytest.mark.processes


def test_the_room_imports_no_framework() -> None:
    """Importing the room brings neither TensorFlow nor torch."""
    code = (
        "import sys, torchdeck.integrations as room\n"
        "assert set(room.HOMES) <= set(dir(room))\n"
        "sys.exit(bool({'tensorflow', 'torch'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_without_tensorflow_it_is_said() -> None:
    """Where TensorFlow is missing, asking for a name says so, and how to get it."""
    code = (
        "import sys\n"
        "sys.modules['tensorflow'] = None\n"
        "try:\n"
        "    from torchdeck.integrations import AugmentationLayer\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert "needs TensorFlow, which is not installed: pip install 'torchdeck[tensorflow]'" in done.stdout


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A name that is not there fails as in any module."""
    with pytest.raises(AttributeError, match="no attribute 'jax'"):
        _ = torchdeck.integrations.jax  # type: ignore[attr-defined]  # that is the point
