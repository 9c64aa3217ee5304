"""What may be imported without torch."""

import subprocess
import sys

import pytest


def test_light_parts_do_not_import_torch() -> None:
    """The package, the manifest, settings and the entry before it trains leave torch alone."""
    code = (
        "import sys, torchdeck.distributed, torchdeck.distributed.checkpoints.manifest\n"
        "import torchdeck.distributed.entry, torchdeck.distributed.settings, torchdeck.recipes.loader\n"
        "assert torchdeck.distributed.SettingsError.__name__ == 'SettingsError'\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_names_are_resolved() -> None:
    """Every promised name is there; another is an AttributeError."""
    import torchdeck.distributed as package

    for name in package._HOMES:
        assert getattr(package, name).__name__ in (name, "make_strategy")
    assert set(package._HOMES) <= set(dir(package))
    with pytest.raises(AttributeError, match="no attribute 'Trainner'"):
        _ = package.Trainner
