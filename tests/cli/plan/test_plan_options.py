"""`torchdeck plan` refuses options that do not go together, before it plans anything."""

import argparse
from pathlib import Path

import pytest

from torchdeck.cli.plan import plan_command


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What is said of these options; no run file is read for it."""
    parser = argparse.ArgumentParser()
    plan_command.add_parser(parser.add_subparsers())
    args = parser.parse_args(["plan", "no-such-run.toml", *words])
    assert args.handler(args) == 2
    said = capsys.readouterr()
    assert said.out == ""
    return said.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--rank", "0", "--svg", "x.svg"), "--rank is available as text or with --json: leave --svg or"),
        (("--rank", "0", "--commands"), "leave --commands or --rank out"),
        (("--rank", "0", "--export", "sh"), "leave --export or --rank out"),
        (("--compare", "ddp", "--svg", "x.svg"), "leave --svg or --compare out"),
        (("--compare", "ddp", "--rank", "0"), "--rank and --compare exclude each other"),
        (("--out", "x"), "--out needs --export"),
    ],
)
def test_options_that_do_not_go_together(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """None is left out silently."""
    assert said in refused(capsys, *words)


def test_a_picture_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder, and a folder that is not there, are said without a trace."""
    for folder in (".", str(tmp_path)):
        assert f"{folder} cannot be written: it is a folder" in refused(capsys, "--svg", folder)
    place = str(tmp_path / "none" / "x.svg")
    assert f"there is no folder {tmp_path / 'none'}" in refused(capsys, "--svg", place)
