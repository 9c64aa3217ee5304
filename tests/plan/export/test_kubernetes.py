"""A plan for Kubernetes: objects with the fields of the published schemas, whose script starts the plan."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.system.kubernetes_schemas import SCHEMAS, VERSIONS, check
from support.values.machines import byte_gpt, config, node, plan
from torchdeck.cli.plan.plan_command import KUBERNETES, export_scripts
from torchdeck.config.machines.slurm import Slurm
from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.plan.export.kubernetes import FILL_IN, KINDS, export_kubernetes

yaml: Any = pytest.importorskip("yaml")


def two_nodes(**run: Any) -> LaunchPlan:
    asked = config({"script": "/x.py", **run}, distributed={"nodes": ["a", "b"], "devices": "auto"})
    return plan(asked, node("a", gpus=2, cores=4), node("b", gpus=2, cores=4))


def command_of(value: Any, kind: str) -> list[str]:
    """The command of the pods, as the container gets it."""
    spec = value["spec"]
    if kind == "trainjob":
        found = spec["trainer"]
    elif kind == "jobset":
        found = spec["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    else:
        found = spec["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    return [word.replace("$$", "$") for word in found["command"]]


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_has_the_fields_of_its_schema(kind: str) -> None:
    for made in (two_nodes(secrets=["THE_KEY"]), plan(byte_gpt())):
        export = export_kubernetes(made, kind)
        value = yaml.safe_load(export.text)
        check(value, SCHEMAS[kind])
        assert (value["apiVersion"], value["kind"]) == VERSIONS[kind]
        assert value["metadata"]["name"] == "run"
        head = export.text.partition("apiVersion")[0]
        assert all(f"# - {each}" in head for each in export.missing)
        assert FILL_IN in str(value)
        assert "nvidia.com/gpu" in str(value) or made.kind == "recipe"


def test_the_pods_of_a_pytorchjob_are_a_master_and_workers() -> None:
    replicas = [
        yaml.safe_load(export_kubernetes(made, "pytorchjob").text)["spec"]["pytorchReplicaSpecs"]
        for made in (two_nodes(), plan())
    ]
    assert [{name: item["replicas"] for name, item in each.items()} for each in replicas] == [
        {"Master": 1, "Worker": 1},
        {"Master": 1},
    ]
    assert replicas[0]["Master"]["template"]["spec"]["containers"][0]["name"] == "pytorch"


def test_the_command_says_what_is_to_be_filled_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tuple(KINDS) == KUBERNETES
    file = tmp_path / "run.yaml"
    assert export_scripts(two_nodes(secrets=["THE_KEY"]), "jobset", file, Slurm()) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{file}\n"
    assert all(word in printed.err for word in (FILL_IN, "image: ", "claimName: ", "THE_KEY"))
    assert file.read_text().startswith("# run: 4 ranks on 2 nodes.\n")


@pytest.mark.processes
@pytest.mark.parametrize("kind", KINDS)
def test_the_script_of_a_pod_starts_its_share_of_the_plan(kind: str, tmp_path: Path) -> None:
    """With the variables that each kind's operator sets, and arguments byte for byte."""
    arguments = ["it's", "$HOME $(id) $$ $$(X)", "a\nb", "dos\r\nline", ""]
    made = two_nodes(args=arguments, working_dir=str(tmp_path))
    command = command_of(yaml.safe_load(export_kubernetes(made, kind).text), kind)
    show = tmp_path / "python"
    shown = "import json, os, sys\nprint(json.dumps([sys.argv[1:], dict(os.environ)]))\n"
    show.write_text(f"#!{sys.executable}\n{shown}")
    show.chmod(0o755)
    env = {
        "RUN_ID": "run",
        "RUN_DIR": str(tmp_path / "run"),
        "ATTEMPT": "1",
        "RESUME": "auto",
        "PYTHON": str(show),
        "PATH": os.environ["PATH"],
        "HOSTNAME": "pod-1",
        "JOB_COMPLETION_INDEX": "1",
        "RANK": "1",
        "MASTER_ADDR": "first",
        "MASTER_PORT": "29500",
        "PET_NODE_RANK": "1",
        "PET_MASTER_ADDR": "first",
        "PET_MASTER_PORT": "29500",
        "PET_NNODES": "9",
    }
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    argv, variables = json.loads(done.stdout)
    given = dict(itertools.pairwise(argv))
    assert (given["--nnodes"], given["--nproc-per-node"], given["--node-rank"]) == ("2", "2", "1")
    assert given["--master-addr"] == ("run-node-0-0.run" if kind == "jobset" else "first")
    assert (given["--master-port"], argv[-5:]) == ("29500", arguments)
    assert (variables["TORCHDECK_NODE"], "PET_NNODES" in variables) == ("pod-1", False)
    assert {path.name for path in (tmp_path / "run/attempts/1/ranks").iterdir()} == {"2", "3"}
