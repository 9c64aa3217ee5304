"""Words of the systemd unit."""

from __future__ import annotations

from pathlib import Path

from torchdeck.cli.queue.systemd_unit import unit_text


def test_only_the_command_has_its_dollars_doubled() -> None:
    """systemd expands variables in ExecStart, and not in Environment."""
    text = unit_text(Path("/srv/$a b%"), ["/usr/bin/python3", "$HOME", '"\\%'])
    assert 'Environment="TORCHDECK_HOME=/srv/$a b%%"\n' in text
    assert 'ExecStart="/usr/bin/python3" "$$HOME" "\\"\\\\%%"\n' in text
