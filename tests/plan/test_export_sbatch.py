"""A plan as a job script for Slurm: what srun starts is really run, by a stand-in that does what srun does.

tests/integration/test_slurm.py gives such a script to a real Slurm.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from support.values.machines import byte_gpt, config, node, plan
from torchdeck.config.machines.slurm import Slurm
from torchdeck.contract.inventory import InterpreterFacts
from torchdeck.contract.plan.launch_plan import CodeTree, LaunchPlan
from torchdeck.plan.export.sbatch_script import export_sbatch

pytestmark = pytest.mark.processes

TEXTS = st.text(
    st.sampled_from("\\\"'%^&|<>()$`{}@*~#!; \n\r\tNODE")
    | st.characters(codec="utf-8", exclude_characters="\0")
)
NASTY = [
    "it's",
    'say "so"',
    "$(touch pwned) `touch pwned`",
    "a\nNODE\nb",
    "dos\r\nline",
    "",
    "@{port}",
    "é😀",
]

SRUN = """\
#!/bin/sh
# srun's part for one node: the script comes by standard input
while [ "$1" != /bin/sh ]; do shift; done
exec "$@"
"""
SHOW = """\
import json, os, sys
print(json.dumps({"argv": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ)}))
"""


def executed(made: LaunchPlan, folder: Path, nodeid: int = 0, **env: str) -> dict[str, Any]:
    """What node `nodeid` of the job would execute: argv without the interpreter, cwd and environment."""
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    show = tools / "show.py"
    show.write_text(SHOW)
    for name, text in {
        "srun": SRUN,
        "scontrol": "#!/bin/sh\nprintf '%s\\n' first second\n",
        "python": f'#!/bin/sh\n[ "$1" != -c ] || exit 0\nexec {sys.executable} {show} "$@"\n',
    }.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    script = folder / "job.sh"
    script.write_text(export_sbatch(made), newline="")
    done = subprocess.run(
        ["/bin/sh", str(script)],
        cwd=folder,
        env={
            "PATH": f"{tools}:{os.environ['PATH']}",
            "PYTHON": str(tools / "python"),
            "SLURM_JOB_ID": "123456",
            "SLURM_JOB_NODELIST": "first,second",
            "SLURM_NODEID": str(nodeid),
            "SLURMD_NODENAME": ("first", "second")[nodeid % 2],
            **env,
        },
        input="not for the ranks",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown: dict[str, Any] = json.loads(done.stdout)
    return shown


def on_two(folder: Path, *machines: Any, **run: Any) -> LaunchPlan:
    asked = config(
        {"script": "/x.py", "working_dir": str(folder), **run},
        distributed={"nodes": ["a", "b"], "devices": "auto"},
    )
    return plan(asked, *(machines or (node("a", cores=3), node("b", cores=3))))


def asked_for(made: LaunchPlan, slurm: Slurm | None = None) -> list[str]:
    return [
        line.removeprefix("#SBATCH --")
        for line in export_sbatch(made, slurm).splitlines()
        if line.startswith("#SBATCH")
    ]


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(TEXTS, max_size=4), TEXTS)
def test_arguments_and_variables_arrive(tmp_path: Path, args: list[str], value: str) -> None:
    """Every text arrives byte for byte, through the job's script and through the shell on the node."""
    made = on_two(tmp_path, args=args, env={"MY_VALUE": value})
    shown = executed(made, tmp_path)
    command = made.nodes[0].command
    assert shown["argv"][-len(args) - 2 :] == ["-u", "/x.py", *args]
    assert len(command) == 3 + len(args)
    assert shown["env"]["MY_VALUE"] == value


def test_sbatch_takes_any_argument(tmp_path: Path) -> None:
    """It takes no script with a line break of DOS in it; and no word of the user's ends the node's part."""
    made = on_two(tmp_path, args=NASTY)
    assert "\r\n" not in export_sbatch(made)
    assert executed(made, tmp_path)["argv"][-len(NASTY) :] == NASTY
    assert not list(tmp_path.rglob("pwned"))


def test_the_words_are_the_plans(tmp_path: Path) -> None:
    """torchrun as planned, with Slurm's number of the node, the first node's name and a port by the job."""
    made = on_two(tmp_path)
    for nodeid in (0, 1):
        shown = executed(made, tmp_path, nodeid, RUN_DIR=f"r d{nodeid}", PET_NNODES="9")
        filled = made.filled(
            {
                "run_id": f"exported-{made.fingerprint[:12]}-123456",
                "run_dir": str(tmp_path / f"r d{nodeid}"),
                "attempt": "1",
                "port": "23456",
                "resume": "",
                "shipped": "",
                "inside": "",
            }
        )
        part = filled.nodes[nodeid]
        words = [
            "-m",
            "torch.distributed.run",
            *part.torchrun[2:],
            "/bin/sh",
            str(tmp_path / f"r d{nodeid}/attempts/1/rank_{nodeid}.sh"),
            str(tmp_path / "bin/python"),
            *part.command[1:],
        ]
        words[words.index("--master-addr") + 1] = "first"
        assert shown["argv"] == words
        assert shown["cwd"] == str(tmp_path)
        assert shown["env"]["TORCHDECK_NODE"] == ("first", "second")[nodeid]
        assert not {"PET_NNODES", "PORT", "ADDRESS", "RUN_ID"} & set(shown["env"])
        assert (tmp_path / f"r d{nodeid}/attempts/1/ranks" / str(nodeid)).is_dir()


def test_what_differs_goes_by_node(tmp_path: Path) -> None:
    """Numbers of ranks, folders and interfaces are those of each node; ranks count over all of them."""
    here, there = tmp_path / "it's here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    made = on_two(tmp_path, node("a", gpus=2, cores=4), node("b", gpus=1, cores=4))
    made = dataclasses.replace(
        made,
        nodes=tuple(
            dataclasses.replace(
                part, working_dir=str(folder), env={**part.env, "NCCL_SOCKET_IFNAME": folder.name}
            )
            for part, folder in zip(made.nodes, (here, there), strict=True)
        ),
    )
    for nodeid, (folder, ranks) in enumerate([(here, 2), (there, 1)]):
        shown = executed(made, tmp_path, nodeid, RUN_DIR=f"run{nodeid}")
        argv = shown["argv"]
        assert argv[argv.index("--nproc-per-node") + 1] == str(ranks)
        assert shown["cwd"] == str(folder)
        assert shown["env"]["NCCL_SOCKET_IFNAME"] == folder.name
        # Slurm says which, and what is not there is not made up
        assert "CUDA_VISIBLE_DEVICES" not in shown["env"]
    found = {path.name for path in tmp_path.glob("run*/attempts/1/ranks/*")}
    assert found == {"0", "1", "2"}


def test_sbatch_is_asked_for_what_the_plan_needs(tmp_path: Path) -> None:
    """Nodes, one task on each, cores for all threads, GPUs of the greediest, time, and names of secrets."""
    made = on_two(tmp_path, node("a", gpus=2, cores=8), node("b", gpus=4, cores=8), secrets=["THE_KEY"])
    made = dataclasses.replace(
        made, name="my run\n#SBATCH --x", policy=dataclasses.replace(made.policy, max_seconds=61.0)
    )
    assert asked_for(made) == [
        "job-name=my-run-SBATCH---x",
        "nodes=2",
        "ntasks-per-node=1",
        "cpus-per-task=8",
        "gres=gpu:4",
        "time=2",
        "output=%x-%j.out",
        "open-mode=append",
        "signal=B:USR1@120",
        "export=ALL,THE_KEY",
        "requeue",
    ]


def test_one_node_on_the_cpu(tmp_path: Path) -> None:
    """Nothing of GPUs is asked for; ranks meet on the loopback interface as planned, and see no GPU."""
    made = plan(config({"script": "/x.py", "working_dir": str(tmp_path)}), node(cores=2))
    found = asked_for(made)
    assert found[1:4] == ["nodes=1", "ntasks-per-node=1", "cpus-per-task=2"]
    assert not [each for each in found if each.startswith(("gres", "time", "account"))]
    shown = executed(made, tmp_path)
    assert shown["argv"][shown["argv"].index("--master-addr") + 1] == "127.0.0.1"
    assert shown["env"]["CUDA_VISIBLE_DEVICES"] == ""


def test_a_secret_is_wanted_by_name(tmp_path: Path) -> None:
    """Its value is nowhere in the script; without one the job ends at once and says its name."""
    made = plan(
        config({"script": "/x.py", "working_dir": str(tmp_path), "secrets": ["THE_KEY"]}),
        environ={"THE_KEY": "canary"},
    )
    assert "canary" not in export_sbatch(made)
    assert executed(made, tmp_path, THE_KEY="canary")["env"]["THE_KEY"] == "canary"
    with pytest.raises(AssertionError, match=r"THE_KEY.*is a secret of this run"):
        executed(made, tmp_path)


def test_the_slurm_table_becomes_directives(tmp_path: Path) -> None:
    made = on_two(tmp_path, node("a", gpus=2, cores=8), node("b", gpus=2, cores=8))
    asked = Slurm(
        time="1-00:00:00", account="proj", partition="gpu", qos="long", constraint="h100", gres="gpu:h100:2",
        output="logs/%j.out", save_before=300, requeue="never", options=["--exclusive"],
        setup=["module load x"],
    )  # fmt: skip
    assert asked_for(made, asked)[4:] == [
        *("gres=gpu:h100:2", "time=1-00:00:00", "account=proj", "partition=gpu", "qos=long"),
        *("constraint=h100", "output=logs/%j.out", "open-mode=append", "signal=B:USR1@300", "export=ALL"),
        *("no-requeue", "exclusive"),
    ]
    script = export_sbatch(made, asked)
    assert script.startswith("#!/bin/bash\n")
    assert "\nset -e\nmodule load x\nset -u\n" in script
    with pytest.raises(ValidationError):
        Slurm(account="a b")
    with pytest.raises(ValidationError):
        Slurm(options=["--comment=a\nrm -rf /"])


def test_a_job_started_again_is_another_attempt(tmp_path: Path) -> None:
    """It writes next to what the first one wrote, under the same run."""
    made = plan(config({"script": "/x.py", "working_dir": str(tmp_path)}))
    for number in ("1", "2", "3"):
        shown = executed(made, tmp_path, RUN_DIR="r", SLURM_RESTART_COUNT=str(int(number) - 1))
        assert shown["env"]["TORCHDECK_ATTEMPT"] == number


def test_nodes_that_choose_their_numbers_meet_at_the_first(tmp_path: Path) -> None:
    """Under c10d the first node is the host, and each says its own name to the others."""
    asked = config(
        {"script": "/x.py", "working_dir": str(tmp_path)},
        distributed={"nodes": ["a", "b"], "devices": "cpu", "rendezvous": {"backend": "c10d"}},
        launch={"trusted_network": True},
    )
    made = plan(asked, node("a"), node("b"))
    for nodeid, name in enumerate(("first", "second")):
        argv = executed(made, tmp_path, nodeid)["argv"]
        assert argv[argv.index("--rdzv-endpoint") + 1] == "first:23456"
        assert argv[argv.index("--rdzv-conf") + 1] == f"is_host={1 - nodeid}"
        assert argv[argv.index("--local-addr") + 1] == name


def test_other_interpreters_of_nodes(tmp_path: Path) -> None:
    """Each node's own Python is executed, where the submitting environment names none."""
    made = on_two(tmp_path)
    others = []
    for number, part in enumerate(made.nodes):
        python = tmp_path / f"python {number}"
        python.write_text(f'#!/bin/sh\nexec {sys.executable} {tmp_path}/bin/show.py "$0" "$@"\n')
        python.chmod(0o755)
        words = (str(python), *part.torchrun[1:]), (str(python), *part.command[1:])
        others.append(dataclasses.replace(part, torchrun=words[0], command=words[1]))
    made = dataclasses.replace(made, nodes=tuple(others))
    for nodeid in (0, 1):
        shown = executed(made, tmp_path, nodeid, PYTHON="")
        assert shown["argv"][0] == str(tmp_path / f"python {nodeid}")


def test_a_recipe_needs_an_installed_torchdeck() -> None:
    """The script says so in its head, and each node sees to it before torchrun is started."""
    script = export_sbatch(plan(byte_gpt()))
    assert script.count("pip install 'torchdeck[train]'") == 2
    assert InterpreterFacts("/usr/bin/python3", "3.11.7", "2.13.0+cpu", "2.4.6").executable in script


def test_code_that_a_run_copies_to_its_nodes_is_said_by_a_variable(tmp_path: Path) -> None:
    """The user's folder if nothing is said; the nodes' parts are given it, and ranks do not inherit it."""
    mine, copied = tmp_path / "user's folder", tmp_path / "copied there"
    for folder in (mine, copied):
        folder.mkdir()
    asked = config(
        {"script": str(mine / "x.py"), "working_dir": str(mine)}, distributed={"nodes": ["a", "b"]}
    )
    there = [dataclasses.replace(node(name, cores=1), remote=True) for name in ("a", "b")]
    made = plan(asked, *there, code=CodeTree({"x.py": "ab" * 32}, str(mine), 7))
    head = export_sbatch(made).partition("set -e")[0]
    assert "[CODE=folder]" in head
    assert "same path on every node" in head
    assert str(mine) in head
    for nodeid in (0, 1):
        shown = executed(made, tmp_path, nodeid, RUN_DIR="run")
        assert (shown["cwd"], shown["argv"][-1]) == (str(mine), str(mine / "x.py"))
        assert "CODE" not in shown["env"]
    shown = executed(made, tmp_path, 1, RUN_DIR="run", CODE=str(copied))
    assert (shown["cwd"], shown["argv"][-1]) == (str(copied), str(copied / "x.py"))
