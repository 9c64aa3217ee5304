"""A folder in which configs are checked."""

from pathlib import Path

import pytest

from support.values.checked_config import CheckedConfig


@pytest.fixture
def checked(tmp_path: Path) -> CheckedConfig:
    return CheckedConfig(tmp_path)
