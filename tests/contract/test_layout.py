"""Where things lie."""

from pathlib import Path

from torchdeck.contract.layout import AttemptLayout, Home, RunLayout


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
    ending = (
        RunLayout(Path("$TORCHDECK_RUN_DIR")).attempts / "$TORCHDECK_ATTEMPT/nodes/${TORCHDECK_NODE:-}/ending"
    )
    assert f'"{ending}"' in script
    assert RunLayout(tmp_path).attempt(2).node("n1").ending == tmp_path / "attempts/2/nodes/n1/ending"


def test_a_run_knows_the_home_it_is_in(tmp_path: Path) -> None:
    """From each of its parts, too."""
    run = Home(tmp_path).run("20261121T034455Z-quick-0a1b2c")
    assert run.root == tmp_path / "runs" / "20261121T034455Z-quick-0a1b2c"
    assert run.home == Home(tmp_path)
    assert run.node("n1").run == run
    assert run.attempt(3).run == run
    assert AttemptLayout.of_rank(run.attempt(3).rank(12)) == run.attempt(3)
    assert Home.of_bundle(run.home.shipped / "0a1b") == run.home


def test_the_run_of_a_checkpoint_is_known_if_it_is_in_its_own_folder(tmp_path: Path) -> None:
    run = RunLayout(tmp_path / "runs" / "20261121T034455Z-quick-0a1b2c")
    assert RunLayout.of_checkpoint(run.checkpoints / "step-00000004") == run
    assert RunLayout.of_checkpoint(tmp_path / "elsewhere" / "step-00000004") is None


def test_a_deleted_run_stays_in_the_folder_of_runs(tmp_path: Path) -> None:
    """Under a name that no run has; an older Torchdeck finds it, too."""
    run = Home(tmp_path).run("20261121T034455Z-quick-0a1b2c")
    assert run.trash() == tmp_path / "runs" / ".deleted-20261121T034455Z-quick-0a1b2c"
    assert run.trash(on_nodes=True).name == ".deleted-everywhere-20261121T034455Z-quick-0a1b2c"


def test_names_in_the_home_do_not_change(tmp_path: Path) -> None:
    """Files that an earlier version wrote are found."""
    home = Home(tmp_path)
    folders = {
        "code",
        "compiled",
        "deleted",
        "sweeps",
        "environments",
        "leases",
        "profiles",
        "runs",
        "shipped",
    }
    files = {"keyring", "measured_nodes", "notes", "settings", "trusted", "verified", "views", "window"}
    names = {*folders, *(f"{name}.json" for name in files), "known_hosts", "nodes.toml"}
    names |= {"queue.jsonl", "queue_server.json", "queue_server.lock", "queue_server.log"}
    properties = {name for name, value in vars(Home).items() if isinstance(value, property)}
    expected = {tmp_path / name for name in names} | {home.private}
    assert {getattr(home, name) for name in properties - {"compile_cache"}} == expected
