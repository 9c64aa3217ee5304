"""Texts with `--set` put in say what file and `--set` say together."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchdeck.config.loader import load_config_text
from torchdeck.config.overrides import with_overrides

TEXT = """\
# a first try
[run]
recipe = "byte-gpt"  # built in

[training]
steps = 10
lr = 1e-3

[distributed]
devices = "cpu"
nproc = 2
"""
CLUSTER = '[[cluster.nodes]]\nname = "a"\n[[cluster.nodes]]\nname = "b"\n'


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("training.lr=3e-4",),
        ("training.lr=1", "training.lr=2e-2"),
        ("training.epochs=2",),
        ("training.epochs=2", "training.steps=7"),
        ("run.script=train.py", "run.args=['--lr', '0.1']"),
        ("model.width=64", "model={layers = 2}", "model={width = 32}"),
        ("run.env={A = '1'}", "run.env.B=2"),
        ("name=my run",),
        ("cluster.nodes=[{name = 'c', gpus = 2}]", "distributed.devices=gpu"),
    ],
)
@pytest.mark.parametrize("more", ["", CLUSTER])
def test_the_text_says_what_file_and_overrides_say_together(
    overrides: tuple[str, ...], more: str, tmp_path: Path
) -> None:
    made = with_overrides(TEXT + more, overrides)
    assert "# a first try\n[run]\n" in made
    at = tmp_path / "run.toml"
    try:
        asked = load_config_text(TEXT + more, at, overrides)
    except ValueError as error:
        with pytest.raises(type(error)):
            load_config_text(made, at)
        return
    assert load_config_text(made, at).written == asked.written


def test_what_is_no_override_changes_nothing() -> None:
    assert with_overrides(TEXT, ["training.lr", "=3", "extends=x.toml"]) == TEXT


def test_a_key_cannot_stand_below_a_value() -> None:
    with pytest.raises(ValueError, match=r"training\.lr"):
        with_overrides(TEXT, ["training.lr.x=3"])
