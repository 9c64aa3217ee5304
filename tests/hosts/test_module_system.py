"""Nodes of a cluster: torch is not in the interpreter but where a module system or the user has put it."""

import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from support.hosts.hosts_run import HostsRun
from torchdeck.nodes.connector import Connector
from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.probe.probing import Question, probe_node

AcrossOf = Callable[..., HostsRun]
BARE = str(Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}"))
"""The interpreter under the virtual environment: it has no torch."""
SCRIPT = "import os, torch\nprint('rank', os.environ['RANK'], 'has torch in', torch.__path__[0])\n"


def folder_of_torch() -> str:
    torch = pytest.importorskip("torch", reason="it is what nodes must find")
    return str(Path(torch.__path__[0]).parent)


def test_torch_on_the_path_that_an_activation_script_sets_is_found_by_checks_and_ranks(
    across: AcrossOf, tmp_path: Path
) -> None:
    """As `module load PyTorch` of Lmod and EasyBuild does. The script's own PYTHONPATH is kept beside it."""
    activate = tmp_path / "activate.sh"
    activate.write_text(f"export PYTHONPATH={folder_of_torch()}\n")
    script = tmp_path / "work" / "train.py"
    script.parent.mkdir()
    (script.parent / "more").mkdir()
    (script.parent / "more" / "mine.py").write_text("WORD = 'mine'\n")
    script.write_text(f"import mine\n{SCRIPT}print(mine.WORD)\n")
    hosts = across(1, {1: {"python": BARE, "activate": str(activate)}})
    done = hosts.command.run(
        *("--no-gui", "--trust", "--set", 'distributed.nodes=["node1"]'),
        *("--set", f'run.env.PYTHONPATH="{script.parent / "more"}"', "--script", str(script)),
        timeout=180,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"rank 0 has torch in {folder_of_torch()}" in done.stdout
    assert "mine" in done.stdout


def test_a_launch_is_refused_if_others_can_change_a_nodes_activation_script(
    across: AcrossOf, tmp_path: Path
) -> None:
    """The node itself looks at it, before it is sourced."""
    activate = tmp_path / "site" / "activate.sh"
    activate.parent.mkdir()
    activate.write_text(f"touch {tmp_path / 'sourced'}\n")
    activate.parent.chmod(0o777)
    script = tmp_path / "work" / "train.py"
    script.parent.mkdir()
    script.write_text(SCRIPT)
    hosts = across(1, {1: {"python": BARE, "activate": str(activate)}})
    done = hosts.command.run(
        *("--no-gui", "--trust", "--set", 'distributed.nodes=["node1"]'), "--script", str(script), timeout=180
    )
    assert done.returncode == 3, done.stdout + done.stderr
    assert f"not sourced, as everyone can write {activate.parent}: chmod o-w" in done.stdout + done.stderr
    assert not (tmp_path / "sourced").exists()


def test_a_changed_activation_script_runs_once_it_is_trusted_again(across: AcrossOf, tmp_path: Path) -> None:
    """Its first use trusts it: the user has named it in the node inventory."""
    activate = tmp_path / "on.sh"
    activate.write_text("true\n")
    hosts = across(1, {1: {"python": BARE, "activate": str(activate)}})
    probe, named = ("nodes", "probe", "node1"), f"node1:{activate}"
    for _ in range(2):
        assert hosts.command.run(*probe).returncode == 0
    assert named in hosts.command.run("trust", "list").stdout
    sourced = tmp_path / "sourced"
    activate.write_text(f"touch {sourced}\n")
    refused = hosts.command.run(*probe)
    said = " ".join((refused.stdout + refused.stderr).split())
    assert refused.returncode == 3, said
    assert "its content is not what was trusted: read it, then" in said
    launch = (
        "--no-gui",
        "--trust",
        "--set",
        'distributed.nodes=["node1"]',
        "--script",
        tmp_path / "train.py",
    )
    (tmp_path / "train.py").write_text("print('trained')\n")
    done = hosts.command.run(*launch, timeout=90)
    assert (done.returncode, f"torchdeck trust add {named}" in done.stdout + done.stderr) == (3, True)
    assert not sourced.exists()
    added = hosts.command.run("trust", "add", named)
    assert (added.returncode, added.stdout) == (0, f"trusted {named}\n"), added.stderr
    assert hosts.command.run(*probe).returncode == 0
    assert sourced.exists()
    assert hosts.command.run("trust", "remove", named).returncode == 0
    assert hosts.command.run(*probe).returncode == 3
    missing = hosts.command.run("trust", "add", "node1:/no/such.sh")
    assert (missing.returncode, "/no/such.sh cannot be read on node node1" in missing.stderr) == (3, True)
    assert hosts.command.run("trust", "add", "node9:/on.sh").returncode == 3


def test_torch_in_the_users_site_packages_is_found_by_probes_and_ranks(
    across: AcrossOf, torchdeck_home: Path, tmp_path: Path
) -> None:
    """As `pip install --user torch` leaves it."""
    hosts = across(1, {1: {"python": BARE}})
    base = hosts.made.home(1) / ".local"
    names = {"userbase": str(base), "platlibdir": "lib"}
    folder = Path(sysconfig.get_path("purelib", "posix_user", names))
    folder.mkdir(parents=True)
    (folder / "torch.pth").write_text(f"{folder_of_torch()}\n")
    entry = NodeEntry.model_validate(hosts.made.entry(1, python=BARE))
    found = probe_node("node1", entry, Connector(torchdeck_home).connect, Question(deep=True))
    assert found.facts is not None, found.error
    assert found.facts.python.torch is not None
    assert found.facts.python.deep is not None
    assert found.facts.python.deep.error == ""
    script = tmp_path / "work" / "train.py"
    script.parent.mkdir()
    script.write_text(f"import site\n{SCRIPT}print('user site', site.getusersitepackages())\n")
    nodes = ("--set", 'distributed.nodes=["node1"]')
    done = hosts.command.run("--no-gui", "--trust", *nodes, "--script", script, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"rank 0 has torch in {folder_of_torch()}" in done.stdout
    assert f"user site {folder}" in done.stdout
