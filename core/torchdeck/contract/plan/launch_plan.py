"""The complete plan of a run. Launch accepts nothing else, and agents read nothing else.

Standard library only, Python 3.10: nodes read it too.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torchdeck.contract.plan.alert_plan import AlertPlan, alert_plan_from
from torchdeck.contract.plan.environment import PlannedEnvironment
from torchdeck.contract.plan.fingerprint import fingerprint_of, plain
from torchdeck.contract.plan.policy import CheckpointPolicy, Policy, StdoutPolicy
from torchdeck.contract.plan.prediction import Prediction
from torchdeck.contract.plan.slots import fill
from torchdeck.contract.plan.typed import check_fields
from torchdeck.contract.refusal import Refusal

PLAN_VERSION = 1
WATCHED = "watched"
"""Kind of a plan that starts nothing: its agent watches a training that Torchdeck did not start."""


class PlanFormatError(Refusal, ValueError):
    """A plan.json is not a plan, or is from a newer Torchdeck."""


@dataclass(frozen=True)
class RankPlacement:
    """Placement of one rank."""

    rank: int
    node: str
    node_rank: int
    local_rank: int
    device: str
    """`cpu`, or `cuda:2` for the node's third GPU."""


@dataclass(frozen=True)
class NodePlan:
    """Command of one node: `argv` is `torchrun + rank_holder + command`."""

    name: str
    address: str
    node_rank: int
    nproc: int
    devices: tuple[str, ...]
    """Devices to lease, by UUID if there is one; empty for CPU ranks, which need no lease."""
    working_dir: str
    torchrun: tuple[str, ...]
    """torchrun and its flags, up to and including `--no-python`; empty: the command is one plain process."""
    rank_holder: tuple[str, ...]
    """Torchdeck's shim around each rank; an exported script leaves it out."""
    command: tuple[str, ...]
    """Command of each rank."""
    env: Mapping[str, str]
    """Added to the environment of the agent, replacing its values."""
    unset: tuple[str, ...]
    """Names removed from it; a name ending in `*` is a prefix."""
    secrets: tuple[str, ...] = ()
    """Names of variables whose values are sent over a pipe at launch; never their values."""
    environment: PlannedEnvironment | None = None
    """None: the ranks' Python is there."""

    @property
    def interpreter(self) -> str:
        """Return the Python that runs the agent: that of the ranks, unless their environment is made for
        them.
        """
        return fill(self.command[0], {}) if self.environment is None else self.environment.python

    @property
    def argv(self) -> tuple[str, ...]:
        return self.torchrun + self.rank_holder + self.command


@dataclass(frozen=True)
class Batch:
    """Arithmetic of one optimizer step; only if the training is Torchdeck's own (a recipe)."""

    microbatch: float
    """Samples; if a batch plan gives the microbatches, their mean, which need not be whole."""
    accumulation: int
    world_size: int
    global_batch: int
    """microbatch × accumulation × world_size, in samples; rounded if microbatch is a mean."""
    lr: float
    """As written in the config."""
    lr_factor: float
    """Factor of the scaling rule on the learning rate."""
    scaled_lr: float
    scaling: str
    reference_batch: int
    """Global batch at which `lr` holds as written."""
    steps: int | None
    """Total optimizer steps, if the config gives them."""


@dataclass(frozen=True)
class SmallerSize:
    """Plan of a run at one of the sizes below its full one; `plan.smaller_plan` carries it out."""

    nodes: int
    nproc: int
    """Ranks on each node."""
    batch: Batch | None
    """Arithmetic of a step at this size, the global batch kept if it divides."""
    shard: int
    """Ranks of a group under hsdp, else 1."""
    threads: Mapping[str, int]
    """OMP_NUM_THREADS by node, if it differs from that at full size."""
    warnings: tuple[str, ...] = ()
    prediction: Prediction | None = None
    """None if nothing is known, and for most sizes if there are very many."""

    @property
    def world_size(self) -> int:
        return self.nodes * self.nproc


@dataclass(frozen=True)
class AbsentNode:
    """Node that the run begins without."""

    name: str
    why: str


@dataclass(frozen=True)
class CodeTree:
    """The user's own code that will be executed."""

    files: Mapping[str, str] = field(default_factory=dict)
    """Path → SHA-256 of its content; more if there is a copy (`agent.snapshots.manifest.Entry`)."""
    folder: str = ""
    """Common folder of the files, of which each run executes a copy of its own; empty: files run in place."""
    size: int = 0
    """Bytes copied."""
    uncopied: str = ""
    """Why there is no copy, as a sentence; empty if there is one, or no user code is executed."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Path → why it is not copied: files with credentials, and other homes of Torchdeck."""
    knowingly: tuple[str, ...] = ()
    """Paths that .torchdeckignore names, so that they are copied whatever they hold."""


@dataclass(frozen=True)
class WatchedProcess:
    """Process of a training that Torchdeck did not start; see `contract.processes.ProcessIdentity`."""

    pid: int
    start_ticks: int
    boot: str


@dataclass(frozen=True)
class LaunchPlan:
    """Complete plan of one run."""

    name: str
    kind: str
    """`recipe`, `script`, `module`, or `watched`."""
    target: str
    """The recipe's name or file, the script's path, or the module."""
    strategy: str
    backend: str
    world_size: int
    ranks: tuple[RankPlacement, ...]
    nodes: tuple[NodePlan, ...]
    batch: Batch | None
    checkpoint: CheckpointPolicy
    stdout: StdoutPolicy
    policy: Policy
    slots: Mapping[str, str]
    """Slots that this plan uses → the source of their values."""
    code: CodeTree
    warnings: tuple[str, ...] = ()
    prediction: Prediction | None = None
    """Expected needs and usage of the run; None if nothing is known."""
    smaller: tuple[SmallerSize, ...] = ()
    """Sizes with which it may continue if a rank or node is lost for good, most ranks first; few or none."""
    spares: tuple[NodePlan, ...] = ()
    """Command of each spare node in the place of a lost one; `smaller_plan` fills in the place."""
    spare_ranks: tuple[RankPlacement, ...] = ()
    """Devices of spare nodes; their ranks are those of the nodes they replace."""
    absent: tuple[AbsentNode, ...] = ()
    """Nodes that did not answer and are left out; nothing of the run is on them."""
    metric_names: Mapping[str, str] = field(default_factory=dict)
    """Role → the script's own name of that metric (`trainers.roles`)."""
    watched: WatchedProcess | None = None
    """The process whose training is watched; None: a folder is, or the run is Torchdeck's own."""
    alerts: AlertPlan | None = None
    """None: no events are reported."""
    version: int = PLAN_VERSION

    @property
    def all_nodes(self) -> tuple[NodePlan, ...]:
        """Return the nodes with ranks, then the spares: each has an agent."""
        return self.nodes + self.spares

    @property
    def steps(self) -> int | None:
        """Return the total optimizer steps: as in the config, or computed from its epochs; None if
        unknown.
        """
        if self.batch is not None and self.batch.steps is not None:
            return self.batch.steps
        return None if self.prediction is None or self.prediction.data is None else self.prediction.data.steps

    @property
    def rendezvous(self) -> str:
        """Return torchrun's rendezvous: `static`, or `c10d`, under which `ranks` is only what is expected."""
        return dict(itertools.pairwise(self.nodes[0].torchrun)).get("--rdzv-backend", "static")

    @property
    def fingerprint(self) -> str:
        """Return the SHA-256 over what is executed and the code tree; not over name, warnings and
        prediction.
        """
        smaller = tuple(dataclasses.replace(size, prediction=None) for size in self.smaller)
        return fingerprint_of(dataclasses.replace(self, prediction=None, smaller=smaller).to_json())

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and numbers; the fingerprint is added by `document`."""
        value: dict[str, Any] = plain(self)
        value["policy"] = self.policy.to_json()
        if not self.code.folder:
            why = {"uncopied": self.code.uncopied} if self.code.uncopied else {}
            value["code"] = {"files": value["code"]["files"], **why}  # as before there were copies
        for name in ("resume_args", "resume_by"):
            if not value["checkpoint"][name]:
                del value["checkpoint"][name]  # plans of earlier versions lack it
        for node in (*value["nodes"], *value["spares"]):
            if node["environment"] is None:
                del node["environment"]  # plans of earlier versions lack it
        for sized in (value, *value["smaller"]):
            if sized["prediction"] is not None and not sized["prediction"]["cheaper"]:
                del sized["prediction"]["cheaper"]  # plans of earlier versions lack it
        if not self.smaller:
            del value["smaller"]  # plans older than ranges lack it but have a fingerprint
        for name in ("spares", "spare_ranks", "absent", "metric_names", "watched", "alerts"):
            if not value[name]:
                del value[name]
        return value

    def document(self) -> dict[str, Any]:
        """Return the content of plan.json: `to_json` and the fingerprint."""
        value = self.to_json()
        return {**value, "fingerprint": fingerprint_of(value)}

    @classmethod
    def from_json(cls, value: Any) -> LaunchPlan:
        """Return the plan in a plan.json.

        Raises:
            PlanFormatError: it is not one, is from a newer Torchdeck, or was edited (another fingerprint).
        """
        if not isinstance(value, Mapping) or "version" not in value:
            raise PlanFormatError("not a plan: there is no version in it")
        version = value["version"]
        if not isinstance(version, int):
            raise PlanFormatError(f"not a plan: its version is {version!r}, not a number")
        if version > PLAN_VERSION:
            raise PlanFormatError(
                f"the plan was made by a newer Torchdeck (format {version}, this one reads {PLAN_VERSION})"
            )
        try:
            plan = _plan_from(value)
            check_fields(plan)
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise PlanFormatError(f"not a plan: {type(error).__name__}: {error}") from error
        if not plan.nodes or len(plan.ranks) != plan.world_size:
            raise PlanFormatError(f"not a plan: {len(plan.nodes)} nodes, {len(plan.ranks)} ranks placed")
        written = value.get("fingerprint")
        if written is not None and written != plan.fingerprint:
            raise PlanFormatError(
                "the plan was changed after it was made: its fingerprint does not fit its content"
            )
        return plan

    def filled(self, values: Mapping[str, str]) -> LaunchPlan:
        """Return the plan of one attempt: every slot of argv, environment and paths filled, no alternatives
        left.

        Raises:
            UnknownSlotError: a slot of the plan has no value in `values`.
        """

        def texts(items: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(fill(item, values) for item in items)

        nodes = tuple(
            dataclasses.replace(
                node,
                working_dir=fill(node.working_dir, values),
                torchrun=texts(node.torchrun),
                rank_holder=texts(node.rank_holder),
                command=texts(node.command),
                env={name: fill(value, values) for name, value in node.env.items()},
            )
            for node in self.nodes
        )
        checkpoint = dataclasses.replace(self.checkpoint, directory=fill(self.checkpoint.directory, values))
        return dataclasses.replace(
            self,
            nodes=nodes,
            checkpoint=checkpoint,
            slots={},
            smaller=(),
            spares=(),
            spare_ranks=(),
            absent=(),
        )

    def node(self, name: str) -> NodePlan:
        """Return the plan of node `name`, which may be a spare; raises KeyError if it is not in the plan."""
        for node in self.all_nodes:
            if node.name == name:
                return node
        raise KeyError(name)


def _plan_from(value: Mapping[str, Any]) -> LaunchPlan:
    batch = value["batch"]
    return LaunchPlan(
        name=value["name"],
        kind=value["kind"],
        target=value["target"],
        strategy=value["strategy"],
        backend=value["backend"],
        world_size=int(value["world_size"]),
        ranks=tuple(RankPlacement(**rank) for rank in value["ranks"]),
        nodes=tuple(_node_plan(node) for node in value["nodes"]),
        batch=None if batch is None else Batch(**batch),
        checkpoint=CheckpointPolicy(**_tupled(value["checkpoint"])),
        stdout=StdoutPolicy(**_tupled(value["stdout"])),
        policy=Policy(**value["policy"]),
        slots=dict(value["slots"]),
        code=CodeTree(**_tupled(value["code"])),
        warnings=tuple(value["warnings"]),
        prediction=_prediction(value),
        smaller=tuple(_smaller_size(size) for size in value.get("smaller", ())),
        spares=tuple(_node_plan(node) for node in value.get("spares", ())),
        spare_ranks=tuple(RankPlacement(**rank) for rank in value.get("spare_ranks", ())),
        absent=tuple(AbsentNode(**node) for node in value.get("absent", ())),
        metric_names=dict(value.get("metric_names", {})),
        watched=WatchedProcess(**value["watched"]) if value.get("watched") else None,
        alerts=alert_plan_from(value["alerts"]) if value.get("alerts") else None,
        version=int(value["version"]),
    )


def _node_plan(value: Mapping[str, Any]) -> NodePlan:
    environment = value.get("environment")
    planned = None if environment is None else PlannedEnvironment(**environment)
    return NodePlan(**{**_tupled(value), "environment": planned})


def _smaller_size(value: Mapping[str, Any]) -> SmallerSize:
    batch = value["batch"]
    return SmallerSize(
        nodes=int(value["nodes"]),
        nproc=int(value["nproc"]),
        batch=None if batch is None else Batch(**batch),
        shard=int(value["shard"]),
        threads=dict(value["threads"]),
        warnings=tuple(value["warnings"]),
        prediction=_prediction(value),
    )


def _prediction(value: Mapping[str, Any]) -> Prediction | None:
    return None if value.get("prediction") is None else Prediction.from_json(value["prediction"])


def _tupled(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(item) if isinstance(item, list) else item for name, item in value.items()}
