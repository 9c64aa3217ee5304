"""Preview and checks of a run on a node of the book, as Launch makes them."""

from collections.abc import Callable
from pathlib import Path

from support.cli.asking import Person
from support.hosts.hosts import TestHosts
from torchdeck.config.loader import load_config
from torchdeck.use_cases.check import CheckRequest
from torchdeck.use_cases.previewer import Previewer
from torchdeck_app.bridge.logins import make_logins
from torchdeck_app.bridge.operations import Cancel
from torchdeck_app.bridge.worker_ui import WorkerUi
from torchdeck_app.launch.check.launching import check_everything


def test_a_run_on_a_node_is_previewed_and_checked_with_what_was_asked_for(
    hosts: Callable[..., TestHosts], torchdeck_home: Path, tmp_path: Path
) -> None:
    made = hosts(1)
    password = made.allow_passwords(1)
    entry = made.nodes_toml().replace(f'key = "{made.key}"\n', "")
    (torchdeck_home / "nodes.toml").write_text(entry)
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "t.py").write_text("print(1)\n")
    file = folder / "run.toml"
    file.write_text('[run]\nscript = "t.py"\n[distributed]\nnodes = ["node1"]\nnproc = 1\ndevices = "cpu"\n')
    person = Person(passwords=[password])
    logins = make_logins(torchdeck_home, person)
    loaded = load_config(file)
    quiet = Previewer(torchdeck_home, logins.quiet).preview(loaded)
    assert quiet.preview is None
    assert "node node1" in str(quiet.problems[0])
    shown = Previewer(torchdeck_home, logins.asking).preview(loaded)
    assert shown.preview is not None, shown.problems
    assert [node.name for node in shown.preview.plan.nodes] == ["node1"]
    rows = check_everything(
        CheckRequest(loaded, home=torchdeck_home),
        folder,
        WorkerUi(logins.asking, lambda _what: None, Cancel()),
    )
    assert {"ssh"} <= {row.name for row in rows if row.node == "node1"}
    assert person.asked == [("password", f"root@{made.address(1)}:22")], "it is asked for once"


def test_a_changed_host_key_is_said_in_preview_and_checks_with_the_command_that_helps(
    hosts: Callable[..., TestHosts], torchdeck_home: Path, tmp_path: Path
) -> None:
    made = hosts(1)
    (torchdeck_home / "nodes.toml").write_text(made.nodes_toml())
    made.change_host_key(1)
    (tmp_path / "t.py").write_text("print(1)\n")
    file = tmp_path / "run.toml"
    file.write_text('[run]\nscript = "t.py"\n[distributed]\nnodes = ["node1"]\nnproc = 1\ndevices = "cpu"\n')
    person = Person(trusts=True)
    connector = make_logins(torchdeck_home, person).asking
    loaded = load_config(file)
    (problem,) = Previewer(torchdeck_home, connector).preview(loaded).problems
    rows = check_everything(
        CheckRequest(loaded, home=torchdeck_home), tmp_path, WorkerUi(connector, lambda _what: None, Cancel())
    )
    refused = [row for row in rows if row.status == "failed"]
    for wrong, right in [(problem.wrong, problem.right), *((row.what, row.fix) for row in refused)]:
        assert "`ssh-keygen -R " in wrong
        assert "`torchdeck nodes trust node1`" in right
    assert refused
    assert person.asked == [], "a changed key is not a question"
