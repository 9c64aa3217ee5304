"""Where things lie."""

from pathlib import Path

from torchdeck.contract.layout import RunLayout


def test_attempts_are_numbers(tmp_path: Path) -> None:
    """In order of number, not of text; other names are no attempts."""
    layout = RunLayout(tmp_path)
    assert layout.attempt_numbers() == []
    for name in ("10", "9", "tmp", ".1"):
        (layout.attempts / name).mkdir(parents=True)
    assert layout.attempt_numbers() == [9, 10]


def test_a_ranks_files_are_in_its_folder(tmp_path: Path) -> None:
    """The paths that rank_holder.sh writes by hand are those of the layout."""
    rank = RunLayout(tmp_path).attempt(2).rank(3)
    script = (Path(__file__).parents[2] / "core/torchdeck/agent/processes/rank_holder.sh").read_text()
    assert rank.root == tmp_path / "attempts" / "2" / "ranks" / "3"
    for path in (rank.stdout, rank.stderr, rank.exit, rank.holder, rank.error):
        assert f'"$folder/{path.name}"' in script
