"""Export of a plan for Kubernetes: a TrainJob or PyTorchJob of Kubeflow, or a JobSet, as YAML to complete.

Each pod runs the same shell script as a node of Slurm does. What only the user knows is marked in the text:
the image, the volume, and secrets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from torchdeck.contract.plan.launch_plan import LaunchPlan
from torchdeck.plan.code_paths import starts_in_copy, where_it_lies
from torchdeck.plan.export.node_part import largest, node_part
from torchdeck.plan.export.shell_script import PREPARE, secrets_needed, shown_name, word
from torchdeck.plan.export.yaml_text import Commented, Yaml, yaml_text
from torchdeck.plan.node_commands import DEFAULT_PORT

FILL_IN = "FILL-IN"
_RUNS = "/runs"
_LONGEST_NAME = 40
"""Characters: names of pods add to it, and may have 63."""
_NEWEST = """\
if [ "$RESUME" = auto ] && [ -d "$CHECKPOINTS" ]; then
  RESUME=$("$PYTHON" -c '
import sys
from pathlib import Path

try:
    from torchdeck.contract.checkpoints.choose import choose_checkpoint
except ImportError:
    sys.exit()
directory, run_dir, run_id = sys.argv[1:]
# outside RUN_DIR, other runs may save into the same folder
own = None if directory.startswith(f"{run_dir}/") else run_id
print(choose_checkpoint(Path(directory), "auto", run_id=own).folder or "")
' "$CHECKPOINTS" "$RUN_DIR" "$RUN_ID")
fi
case $RESUME in auto | never) RESUME= ;; esac"""


class Export(NamedTuple):
    """A plan as a Kubernetes object."""

    text: str
    """YAML with comments."""
    missing: tuple[str, ...]
    """Things that the user must fill in, one sentence each."""


class _Pod(NamedTuple):
    """Variables from which a pod's shell learns its place."""

    number: str
    address: str
    port: str


def _trainjob(plan: LaunchPlan, name: str) -> dict[str, Yaml]:
    # the runtime torch-distributed sets torchrun's own variables
    pod = _Pod("$PET_NODE_RANK", "$PET_MASTER_ADDR", "$PET_MASTER_PORT")
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name},
        "spec": {
            "runtimeRef": {"name": Commented("torch-distributed", f"or one that mounts {_RUNS}")},
            "trainer": {
                "image": _image(plan),
                "command": ["/bin/sh", "-c", _script(plan, pod)],
                "env": _environment(plan, name),
                "numNodes": len(plan.nodes),
                "numProcPerNode": max(node.nproc for node in plan.nodes),
                "resourcesPerNode": _resources(plan),
            },
        },
    }


def _jobset(plan: LaunchPlan, name: str) -> dict[str, Yaml]:
    pod = _Pod("$JOB_COMPLETION_INDEX", f"{name}-node-0-0.{name}", str(DEFAULT_PORT))
    job: dict[str, Yaml] = {
        "parallelism": len(plan.nodes),
        "completions": len(plan.nodes),
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "template": {"spec": {"restartPolicy": "Never", **_pod_spec(plan, name, "train", pod)}},
    }
    if plan.policy.max_seconds is not None:
        job["activeDeadlineSeconds"] = max(1, round(plan.policy.max_seconds))
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {
            "network": {"enableDNSHostnames": True},
            "failurePolicy": {"maxRestarts": 0},
            "replicatedJobs": [{"name": "node", "replicas": 1, "template": {"spec": job}}],
        },
    }


def _pytorchjob(plan: LaunchPlan, name: str) -> dict[str, Yaml]:
    # the operator sets these variables; RANK is the pod's number
    pod = _Pod("$RANK", "$MASTER_ADDR", "$MASTER_PORT")
    spec = _pod_spec(plan, name, "pytorch", pod)
    replicas: dict[str, Yaml] = {
        "Master": {"replicas": 1, "restartPolicy": "Never", "template": {"spec": spec}}
    }
    if len(plan.nodes) > 1:
        replicas["Worker"] = {
            "replicas": len(plan.nodes) - 1,
            "restartPolicy": "Never",
            "template": {"spec": spec},
        }
    policy: dict[str, Yaml] = {"cleanPodPolicy": "None", "backoffLimit": 0}
    if plan.policy.max_seconds is not None:
        policy["activeDeadlineSeconds"] = max(1, round(plan.policy.max_seconds))
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name},
        "spec": {"runPolicy": policy, "pytorchReplicaSpecs": replicas},
    }


KINDS: Mapping[str, Callable[[LaunchPlan, str], dict[str, Yaml]]] = {
    "trainjob": _trainjob,
    "jobset": _jobset,
    "pytorchjob": _pytorchjob,
}
"""Names of the objects → their makers."""


def export_kubernetes(plan: LaunchPlan, kind: str) -> Export:
    """Return `plan` as a Kubernetes object.

    Args:
        plan: the plan.
        kind: one of `KINDS`.
    """
    missing, count = _missing(plan, kind), len(plan.nodes)
    head = [
        f"# {shown_name(plan)}: {plan.world_size} ranks on {count} node{'' if count == 1 else 's'}.",
        f"# Plan {plan.fingerprint}.",
        "#",
        f"# Fill in, where it says {FILL_IN}:",
        *(f"# - {each}" for each in missing),
        "#",
        f"# The run's directory is in {_RUNS}. RESUME=auto continues from the newest checkpoint in it.",
        "# To start the run again, delete the object, raise ATTEMPT and apply the file. A deleted pod",
        "# saves before it ends. In the script, Kubernetes reads $$ as $.",
    ]
    return Export("\n".join([*head, yaml_text(KINDS[kind](plan, _name(plan)))]), missing)


def _missing(plan: LaunchPlan, kind: str) -> tuple[str, ...]:
    folders = sorted({where_it_lies(node, plan.code).working_dir for node in plan.nodes})
    code = "your code in the folder CODE" if _in_copy(plan) else f"your code in {', '.join(folders)}"
    torchdeck = " and torchdeck[train]" if plan.kind == "recipe" else ""
    found = [f"image: a container image with torch{torchdeck}, and {code}"]
    if kind == "trainjob":
        found.append(f"runtimeRef: a runtime that mounts a volume of all pods at {_RUNS}")
    else:
        found.append(f"claimName: a volume claim of all pods (ReadWriteMany), which is mounted at {_RUNS}")
    found += [f"secretKeyRef of {name}: the Secret that has it" for name in plan.nodes[0].secrets]
    return tuple(found)


def _name(plan: LaunchPlan) -> str:
    """Return a name that DNS takes."""
    text = re.sub(r"[^a-z0-9]+", "-", plan.name.lower()).strip("-")[:_LONGEST_NAME].strip("-")
    return text if text[:1].isalpha() else f"run-{text}".rstrip("-")


def _pod_spec(plan: LaunchPlan, name: str, container: str, pod: _Pod) -> dict[str, Yaml]:
    return {
        "terminationGracePeriodSeconds": max(1, round(plan.policy.stop_grace)),
        "containers": [
            {
                "name": container,
                "image": _image(plan),
                "command": ["/bin/sh", "-c", _script(plan, pod)],
                "env": _environment(plan, name),
                "resources": _resources(plan),
                "volumeMounts": [
                    {"name": "runs", "mountPath": _RUNS},
                    {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - in the container
                ],
            }
        ],
        "volumes": [
            {
                "name": "runs",
                "persistentVolumeClaim": {"claimName": FILL_IN},
            },
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
        ],
    }


def _image(plan: LaunchPlan) -> Commented:
    torchdeck = ", torchdeck[train]" if plan.kind == "recipe" else ""
    return Commented(FILL_IN, f"with torch{torchdeck} and your code")


def _environment(plan: LaunchPlan, name: str) -> list[Yaml]:
    values: dict[str, str] = {
        "RUN_ID": name,
        "RUN_DIR": f"{_RUNS}/{name}",
        "ATTEMPT": "1",
        "RESUME": "never" if plan.checkpoint.resume == "never" else "auto",
        "PYTHON": "python3",
    }
    if _in_copy(plan):
        values["CODE"] = FILL_IN
    found: list[Yaml] = [{"name": variable, "value": value} for variable, value in values.items()]
    secrets = ({"secretKeyRef": {"name": FILL_IN, "key": name}} for name in plan.nodes[0].secrets)
    found += [{"name": secret["secretKeyRef"]["key"], "valueFrom": secret} for secret in secrets]
    return found


def _resources(plan: LaunchPlan) -> dict[str, Yaml]:
    cores, gpus = largest(plan.nodes)
    limits: dict[str, Yaml] = {"nvidia.com/gpu": gpus} if gpus else {}
    return {"requests": {"cpu": cores}, **({"limits": limits} if limits else {})}


def _in_copy(plan: LaunchPlan) -> bool:
    return any(map(starts_in_copy, plan.nodes))


def _script(plan: LaunchPlan, pod: _Pod) -> str:
    """Return the script of every pod, with each $ doubled: Kubernetes replaces $(NAME) in commands."""
    nodes = [where_it_lies(node, plan.code) for node in plan.nodes]
    lines = [
        "set -eu",
        f"NODE={pod.number} ADDRESS={pod.address} PORT={pod.port} NODE_NAME=${{HOSTNAME:-$(hostname)}}",
        PREPARE.rstrip(),
        f"CHECKPOINTS={word(plan.checkpoint.directory)}",
        _NEWEST,
        *secrets_needed(nodes[0]),
        *node_part(plan, nodes, logs=False),
    ]
    return "\n".join(lines).replace("$", "$$")
