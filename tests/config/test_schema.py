"""The schema says enough of every key, and takes nothing for something else."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import ValidationError

from torchdeck.config.keys import all_keys
from torchdeck.config.schema import RunConfig
from torchdeck.config.values.numbers import parse_rate, parse_size

SECTIONS = [
    "run", "model", "data", "training", "distributed", "cluster", "estimate", "checkpoint", "telemetry",
    "limits", "launch", "sweep", "slurm", "alerts",
]  # fmt: skip


def test_sections_are_those_of_the_design() -> None:
    """A run file has a name and twelve tables."""
    assert list(RunConfig.model_fields) == ["name", *SECTIONS]


@pytest.mark.parametrize("name", [key.name for key in all_keys().values()])
def test_every_key_is_documented(name: str) -> None:
    """Every key has a sentence of description and says what a right value looks like."""
    key = all_keys()[tuple(name.split("."))]
    assert key.description.endswith(".")
    assert key.expected


@pytest.mark.parametrize("name", [key.name for key in all_keys().values() if key.visible_if])
def test_conditions_name_real_keys_and_values(name: str) -> None:
    """What visible_if names exists, and its values are among that key's choices."""
    for other, values in all_keys()[tuple(name.split("."))].visible_if.items():
        condition = all_keys()[tuple(other.split("."))]
        assert not condition.choices or set(values) <= set(condition.choices)


def test_defaults_are_valid() -> None:
    """All defaults together pass validation when written out."""
    config = RunConfig()
    assert RunConfig.model_validate(config.model_dump()) == config


def test_an_integer_is_a_number_and_text_is_not() -> None:
    """Strict: lr = 1 is taken, lr = "1" and steps = 1.0 and compile = 1 are not."""
    assert RunConfig.model_validate({"training": {"lr": 1}}).training.lr == 1.0
    for table in ({"lr": "1"}, {"steps": 1.0}, {"compile": 1}, {"seed": True}, {"clip": float("inf")}):
        with pytest.raises(ValidationError):
            RunConfig.model_validate({"training": table})


def test_configs_are_frozen() -> None:
    """No one changes a config after it was validated."""
    with pytest.raises(ValidationError):
        RunConfig().training.steps = 3


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512MiB", 512 * 2**20),
        ("2GB", 2 * 10**9),
        ("1.5 gib", 3 * 2**29),
        ("0 B", 0),
        ("7 B", 7),
        ("3kB", 3000),
    ],
)
def test_sizes(text: str, size: int) -> None:
    """Sizes are read in powers of 1000 and of 1024."""
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "80", "1.5", "MiB", "-1GB", "1 XB", "1e3", "1.2.3MB", "٣MB"])
def test_what_is_no_size(text: str) -> None:
    """Anything else is refused, digits of other scripts included."""
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("50GB/s", 50 * 10**9),
        ("1.5 GiB/s", 3 * 2**29),
        ("400Gbit/s", 50 * 10**9),
        ("100 Gb/s", 12_500_000_000),
        ("8 Mbps", 10**6),
        ("8bit/s", 1),
    ],
)
def test_speeds(text: str, rate: int) -> None:
    """A large B is a byte, a small b is a bit."""
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["", "50GB", "GB/s", "50 GB/h", "-1GB/s", "fast"])
def test_what_is_no_speed(text: str) -> None:
    """A size alone is none: bytes a second are asked for."""
    with pytest.raises(ValueError, match="is not a s"):
        parse_rate(text)


@pytest.mark.processes
def test_import_is_light() -> None:
    """Importing the package costs no pydantic, and the loader no torch, numpy or tomlkit."""
    code = (
        "import sys, torchdeck.config; assert 'pydantic' not in sys.modules; "
        "torchdeck.config.load_config; assert not {'torch', 'numpy', 'tomlkit'} & set(sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
    assert result.returncode == 0
