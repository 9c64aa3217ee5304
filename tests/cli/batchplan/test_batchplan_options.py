"""`torchdeck batchplan`: options without effect are refused, and refusals name options."""

from pathlib import Path

import pytest

from torchdeck.cli.main import main
from torchdeck.data.batch_plan.balance import DEFAULT_COST, DEFAULT_WINDOW


@pytest.fixture
def plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A plan over 20 samples, and their lengths beside it."""
    (tmp_path / "lengths.txt").write_text("".join(f"{length}\n" for length in range(1, 21)))
    assert run("build", "--lengths", tmp_path / "lengths.txt", "-o", tmp_path / "plan") == 0
    capsys.readouterr()
    return tmp_path / "plan"


def run(*arguments: object) -> int:
    """The exit code of the command."""
    return main(["batchplan", *map(str, arguments)])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("-w", 2, "--window", 4), "--window needs --balance tokens or"),
        (("-w", 2, "--cost", 4), "--cost needs --balance attention"),
        (("-w", 2, "--balance", "tokens", "--cost", 4), "--cost needs --balance attention"),
        (("--balance", "tokens"), "--balance needs --world-size"),
    ],
)
def test_options_without_effect(
    plan: Path, options: tuple[object, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are not left out silently."""
    assert run("info", plan, *options) == 2
    assert said in capsys.readouterr().err
    if "-w" in options:
        assert run("shard", plan, "-o", plan.parent / "shards", *options) == 2
        assert said in capsys.readouterr().err
        assert not (plan.parent / "shards").exists()


def test_options_with_effect(plan: Path) -> None:
    """Those that belong together are taken."""
    assert run("info", plan, "-w", 2, "--balance", "attention", "--window", 2, "--cost", 7) == 0


def test_refusals_name_options(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As they are written on this command line."""
    lengths = plan.parent / "lengths.txt"
    assert run("build", "--lengths", lengths, "-o", plan) == 2
    assert "choose another --output, or give --overwrite" in capsys.readouterr().err
    assert run("build", "--lengths", lengths, "-o", plan.parent / "p", "--max-length", 9) == 2
    said = capsys.readouterr().err
    assert "(--too-long truncate or drop), or raise --max-length or --token-budget" in said
    lengths.write_text("3\n0\n")
    assert run("build", "--lengths", lengths, "-o", plan.parent / "p") == 2
    assert "(--empty drop)" in capsys.readouterr().err


def test_help_has_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    """Those of the library."""
    with pytest.raises(SystemExit):
        run("info", "--help")
    said = " ".join(capsys.readouterr().out.split())
    assert f"balanced together; default: {DEFAULT_WINDOW};" in said
    assert f"6 × hidden size; default: {DEFAULT_COST}" in said
    assert "equal numbers or one fewer" in said
