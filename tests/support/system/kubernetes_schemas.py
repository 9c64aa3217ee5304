"""Fields of the published schemas of Kubernetes objects, as far as exports use them.

A dict has named fields, a list items of its one element, `MAP` stands for any name. A field whose name ends
with ! is required.
"""

from __future__ import annotations

from typing import Any

MAP = "*"
ENV = [{"name!": str, "value": str, "valueFrom": {"secretKeyRef": {"name": str, "key!": str}}}]
RESOURCES = {"limits": {MAP: (str, int)}, "requests": {MAP: (str, int)}}
CONTAINER = {
    "name!": str,
    "image": str,
    "command": [str],
    "args": [str],
    "env": ENV,
    "resources": RESOURCES,
    "volumeMounts": [{"name!": str, "mountPath!": str}],
}
VOLUME = {
    "name!": str,
    "persistentVolumeClaim": {"claimName!": str},
    "emptyDir": {"medium": str, "sizeLimit": (str, int)},
}
POD = {
    "restartPolicy": str,
    "terminationGracePeriodSeconds": int,
    "containers!": [CONTAINER],
    "volumes": [VOLUME],
}
JOB = {
    "parallelism": int,
    "completions": int,
    "completionMode": str,
    "backoffLimit": int,
    "activeDeadlineSeconds": int,
    "template!": {"spec": POD},
}
HEAD = {"apiVersion!": str, "kind!": str, "metadata!": {"name!": str}}
REPLICA = {"replicas": int, "restartPolicy": str, "template": {"spec": POD}}
SCHEMAS: dict[str, dict[str, Any]] = {
    "jobset": {
        **HEAD,
        "spec!": {
            "network": {"enableDNSHostnames": bool, "subdomain": str, "publishNotReadyAddresses": bool},
            "failurePolicy": {"maxRestarts": int},
            "replicatedJobs": [{"name!": str, "replicas": int, "template!": {"spec": JOB}}],
        },
    },
    "pytorchjob": {
        **HEAD,
        "spec!": {
            "runPolicy": {"cleanPodPolicy": str, "backoffLimit": int, "activeDeadlineSeconds": int},
            "nprocPerNode": str,
            "pytorchReplicaSpecs!": {"Master": REPLICA, "Worker": REPLICA},
        },
    },
    "trainjob": {
        **HEAD,
        "spec!": {
            "runtimeRef!": {"apiGroup": str, "kind": str, "name!": str},
            "trainer": {
                "image": str,
                "command": [str],
                "args": [str],
                "env": ENV,
                "numNodes": int,
                "numProcPerNode": (int, str),
                "resourcesPerNode": RESOURCES,
            },
        },
    },
}
VERSIONS = {
    "jobset": ("jobset.x-k8s.io/v1alpha2", "JobSet"),
    "pytorchjob": ("kubeflow.org/v1", "PyTorchJob"),
    "trainjob": ("trainer.kubeflow.org/v1alpha1", "TrainJob"),
}


def check(value: Any, schema: Any, path: str = "") -> None:
    """Raise AssertionError with the path of what the schema does not have."""
    if isinstance(schema, list):
        assert isinstance(value, list), path
        for number, item in enumerate(value):
            check(item, schema[0], f"{path}[{number}]")
    elif isinstance(schema, dict):
        assert isinstance(value, dict), path
        known = {name.rstrip("!"): inner for name, inner in schema.items()}
        for name, item in value.items():
            assert name in known or MAP in known, f"{path}.{name} is no field"
            check(item, known.get(name, known.get(MAP)), f"{path}.{name}")
        missing = [name for name in schema if name.endswith("!") and name.rstrip("!") not in value]
        assert not missing, f"{path} lacks {missing}"
    else:
        assert isinstance(value, schema), f"{path} is {value!r}"
