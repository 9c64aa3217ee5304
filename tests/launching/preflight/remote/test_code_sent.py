"""That a node gets the code of a run, or why it cannot: of real folders, with what a node said of itself."""

import os
from pathlib import Path
from typing import Any

from support.values.machines import PYTHON
from support.values.node_facts import node_facts
from torchdeck.config.loader import config_from_dict
from torchdeck.contract.inventory import Inventory, NodeInfo
from torchdeck.launching.facts.code_tree import code_of_run
from torchdeck.launching.facts.probed_nodes import NodeReport
from torchdeck.launching.preflight import preflight
from torchdeck.launching.prepare import ClusterFacts, plan_from
from torchdeck.nodes.connector import Connector
from torchdeck.nodes.probe.probing import Probed
from torchdeck.plan.check import Check

GIB = 2**30


def code_checks(folder: Path, run: dict[str, Any], **entry: Any) -> list[Check]:
    """Those called `code` of a run of `folder` on one remote node."""
    home = folder.parent / "home"
    asked = {"run": run, "distributed": {"nodes": ["n0"], "devices": "cpu"}}
    config = config_from_dict(asked, folder)
    node = NodeInfo("n0", "10.0.0.1", (), 8, remote=True, **entry)
    code, warnings = code_of_run(config, folder, home)
    remote = NodeReport(("n0",), (node,), {"n0": PYTHON}, {"n0": Probed("n0", 0.1, node_facts("n0"))})
    found = ClusterFacts(Inventory((node,)), {"n0": PYTHON}, {}, code, warnings, remote=remote)
    checks = preflight(config, plan_from(config, found), found, home, Connector(home))
    return [check for check in checks if check.name == "code"]


def test_what_is_sent_is_said(tmp_path: Path) -> None:
    """How many files, and how much."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "train.py").write_text("print(1)\n")
    (check,) = code_checks(folder, {"script": "train.py"})
    assert (check.node, check.status) == ("n0", "ok")
    assert "1 file," in check.what


def test_a_working_directory_that_is_too_large_is_refused(tmp_path: Path) -> None:
    """One byte over 1 GiB, a hole that no one reads; with what helps, which then does."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "train.py").write_text("print(1)\n")
    (folder / "weights.bin").touch()
    os.truncate(folder / "weights.bin", GIB + 1)
    (check,) = code_checks(folder, {"script": "train.py"})
    assert (check.node, check.status) == ("n0", "failed")
    assert "too large to be sent there" in check.what
    assert "20,000 files or 1.0 GiB" in check.what
    assert ".torchdeckignore" in check.fix
    assert 'run.sync = "none"' in check.fix
    (folder / ".torchdeckignore").write_text("*.bin\n")
    (check,) = code_checks(folder, {"script": "train.py"})
    assert check.status == "ok"


def test_an_empty_working_directory_has_nothing_to_send(tmp_path: Path) -> None:
    """Ranks could not even enter it there, unless the node inventory names a folder of the node's own."""
    folder = tmp_path / "work"
    folder.mkdir()
    run = {"module": "json.tool"}
    (check,) = code_checks(folder, run)
    assert check.status == "failed"
    assert "no file of the working directory" in check.what
    assert code_checks(folder, run, working_dir="/srv/work") == []


def test_a_script_that_holds_a_credential_is_refused_until_it_is_named(tmp_path: Path) -> None:
    """It would not be there on the node."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "train.py").write_text(
        "import os\nlogin('" + "hf" + "_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0iL3o')\n"
    )
    (check,) = code_checks(folder, {"script": "train.py"})
    assert (check.node, check.status) == ("n0", "failed")
    assert "train.py is what the run executes" in check.what
    assert "holds a Hugging Face token (line 2)" in check.what
    assert "!train.py into .torchdeckignore" in check.fix
    (folder / ".torchdeckignore").write_text("!train.py\n")
    (check,) = code_checks(folder, {"script": "train.py"})
    assert check.status == "ok"


def test_weights_that_the_program_is_to_read_are_named(tmp_path: Path) -> None:
    """They are results, and no code; a rule copies them, and then nothing is said."""
    folder = tmp_path / "work"
    (folder / "out").mkdir(parents=True)
    (folder / "train.py").write_text("print(1)\n")
    (folder / "out/init.pt").write_text("1")
    run = {"script": "train.py", "args": ["--init=out/init.pt", "--lr", "0.1", "--save=out/new.pt"]}
    sent, named = code_checks(folder, run)
    assert (sent.status, named.status) == ("ok", "warning")
    assert "out/init.pt is an argument of the program" in named.what
    assert "!out/init.pt" in named.fix
    (folder / ".torchdeckignore").write_text("!out/init.pt\n")
    (check,) = code_checks(folder, run)
    assert check.status == "ok"
