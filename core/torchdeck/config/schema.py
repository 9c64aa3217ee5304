"""The one schema of run.toml; validation, documentation, the JSON schema and the form come from it.

Strict: an integer is taken where a number is asked for, and nothing else is converted.
Contradictions between keys are found in `torchdeck.config.rules.contradictions`, not here.
"""

from __future__ import annotations

from typing import Any, Literal

from torchdeck.config.cluster import Cluster, ClusterNodes
from torchdeck.config.distributed import DdpOptions, Distributed, FsdpOptions, Rendezvous
from torchdeck.config.estimate import Estimate
from torchdeck.config.fields import Section, option, table
from torchdeck.config.problems import shown
from torchdeck.config.recipes.bdh import BdhModel
from torchdeck.config.recipes.byte_finetune import ByteFinetuneModel, PairsData
from torchdeck.config.recipes.byte_gpt import ByteGptModel
from torchdeck.config.recipes.digits import DigitsData, DigitsModel
from torchdeck.config.recipes.text_data import TextData
from torchdeck.config.training import Training
from torchdeck.config.values.sizes import ByteSize

__all__ = [
    "BUILTIN_RECIPES",
    "ByteGptModel",
    "Checkpoint",
    "Cluster",
    "ClusterNodes",
    "DdpOptions",
    "Distributed",
    "Estimate",
    "FsdpOptions",
    "Launch",
    "Limits",
    "Rendezvous",
    "Run",
    "RunConfig",
    "Telemetry",
    "Training",
]

BUILTIN_RECIPES: dict[str, tuple[type[Section], type[Section]]] = {
    "byte-gpt": (ByteGptModel, TextData),
    "bdh": (BdhModel, TextData),
    "digits": (DigitsModel, DigitsData),
    "byte-finetune": (ByteFinetuneModel, PairsData),
}
"""Recipes that come with Torchdeck → the schemas of their [model] and [data] tables."""


class Run(Section):
    """The [run] table: what is executed."""

    recipe: str | None = option(
        "A recipe: one that comes with Torchdeck, or a Python file that says model, data and loss.",
        default=None,
        path=True,
        min_length=1,
        right=f"{', '.join(map(shown, BUILTIN_RECIPES))}, or the path of a .py file",
    )
    script: str | None = option(
        "A Python script that torchrun could start, unchanged.", default=None, path=True, min_length=1
    )
    module: str | None = option(
        "A Python module to run as with python -m.",
        default=None,
        min_length=1,
        right='a dotted module name, such as "mypackage.train"',
    )
    args: list[str] = option("Arguments of the script or module.", default=[], right="a list of strings")
    env: dict[str, str] = option(
        "Environment variables of the ranks.",
        default={},
        right='a table of strings, such as {NAME = "value"}',
    )
    secrets: list[str] = option(
        "Environment variables whose values ranks get from the launching shell; they are written nowhere.",
        default=[],
        right='a list of names of environment variables, such as ["WANDB_API_KEY"]',
    )
    working_dir: str | None = option(
        "Folder the ranks start in; absent: the folder of run.toml.", default=None, path=True, min_length=1
    )
    sync: Literal["auto", "none"] = option(
        "Whether each run executes a copy of its own of the working directory, which is sent to other nodes, "
        "or the files where they lie, on every node under the same path.",
        default="auto",
    )
    interpreter: str | None = option(
        "Python of the ranks, with torch in it; absent: the one that runs torchdeck.",
        default=None,
        path=True,
        min_length=1,
        right="the path of a Python interpreter, or a command found on PATH",
    )


class Checkpoint(Section):
    """The [checkpoint] table: when the state of training is saved, and which one a start goes on from."""

    every: int | Literal["auto"] | None = option(
        "Steps between checkpoints; auto follows from how long a save takes and how often runs fail; absent: "
        "only at a stop and at the end.",
        default=None,
        unit="steps",
        right='a number of steps from 1, or "auto"',
    )
    every_epochs: int | None = option(
        "Epochs between checkpoints, in place of steps or beside them; absent: none.",
        default=None,
        unit="epochs",
        ge=1,
    )
    mtbf: float = option(
        'Mean time between failures of the whole run, which every = "auto" goes by.',
        default=24.0,
        unit="h",
        gt=0,
    )
    max_stall: float = option(
        'Largest fraction of the time that saving may take under every = "auto".',
        default=0.035,
        gt=0,
        le=0.5,
    )
    background: bool = option(
        "Train on while a checkpoint is written; it needs memory on the machine for a copy of what is saved.",
        default=False,
    )
    keep_last: int = option("Newest checkpoints that are kept; one named final always is.", default=2, ge=1)
    keep_every: int | None = option(
        "Checkpoints whose step is a multiple of this are kept for ever; absent: none.",
        default=None,
        unit="steps",
        ge=1,
    )
    keep_best: int = option(
        "Checkpoints with the best values of best_metric that are kept besides.", default=0, ge=0
    )
    best_metric: str = option(
        "What decides which checkpoints are best: a metric of evaluations.",
        default="heldout_loss",
        min_length=1,
    )
    best_is: Literal["lowest", "highest"] = option("Which values of best_metric are best.", default="lowest")
    directory: str | None = option(
        "Folder of the checkpoints; absent: checkpoints in the run's directory.",
        default=None,
        path=True,
        min_length=1,
    )
    resume: str = option(
        "Go on from this run's newest complete checkpoint (auto), never, or from the one at a path.",
        default="auto",
        path=True,
        min_length=1,
        right='"auto", "never", or the path of a checkpoint',
    )
    final: bool = option("Save a checkpoint named final at the end.", default=True)
    replicas: int = option(
        "Other nodes that keep a copy of what a node saves, if nodes have no common folder: with 1 the run "
        "can continue from its newest checkpoint without any one node.",
        default=0,
        unit="nodes",
        ge=0,
        le=16,
    )


class Telemetry(Section):
    """The [telemetry] table: what is measured, and how often."""

    every: int = option("Steps between rows of metrics.", default=1, unit="steps", ge=1)
    stats_every: int | None = option(
        "Steps between rows of statistics of gradients and weights, tensor by tensor; absent: none.",
        default=None,
        unit="steps",
        ge=1,
    )
    profile_steps: tuple[int, int] | None = option(
        "First and last step that torch.profiler records, as a trace in each rank's folder; absent: none.",
        default=None,
        unit="steps",
        strict=False,
        right="two steps, the second not before the first, such as [10, 12]",
    )
    stdout: bool = option("Read loss and other numbers from what a script prints.", default=True)
    patterns: list[str] = option(
        "Regular expressions tried on each line before the known ones; named groups name the numbers.",
        default=[],
        right="a list of regular expressions with named groups, such as ['loss=(?P<loss>\\S+)']",
    )
    system_interval: float = option(
        "Time between samples of CPU, memory, disk, network and GPUs.", default=1.0, unit="s", ge=0.1, le=3600
    )


class Limits(Section):
    """The [limits] table: when a run is stopped for the sake of the machine or the clock."""

    min_free_disk: ByteSize = option(
        "Free disk space below which the run saves a checkpoint and stops.",
        default=512 * 2**20,
        unit="bytes",
        ge=0,
        right='a size with its unit, such as "512MiB" or "2GB", or a number of bytes',
    )
    memory: Literal["refuse", "warn", "off"] = option(
        "What happens when predicted memory does not fit: no start, a warning, or no prediction.",
        default="refuse",
    )
    max_hours: float | None = option(
        "Time after which the run saves a checkpoint and stops; absent: none.", default=None, unit="h", gt=0
    )


class Launch(Section):
    """The [launch] table: how the run is supervised."""

    max_restarts: int = option(
        "Times all ranks are started again after a failure; with a range of ranks or nodes, at each size.",
        default=0,
        ge=0,
        le=1000,
    )
    restart_delay: float = option("Pause before such a start.", default=1.0, unit="s", ge=0, le=86_400)
    on_hang: Literal["watch", "stop", "restart"] = option(
        "What happens when a rank stands still: it is flagged, and the run goes on, stops or restarts.",
        default="watch",
        group="hangs",
    )
    hang_after: float = option(
        "A rank stands still after this time, or 5 × its 99th percentile step time if that is more.",
        default=30.0,
        unit="s",
        ge=1,
        le=604_800,
        group="hangs",
    )
    stop_grace: float = option(
        "How long ranks may take to finish the step, save and exit.",
        default=120.0,
        unit="s",
        ge=0,
        le=86_400,
        group="stopping",
    )
    kill_grace: float = option(
        "From SIGTERM to SIGKILL.", default=10.0, unit="s", ge=0, le=3600, group="stopping"
    )
    queue: bool = option("Wait for devices that another run holds instead of being refused.", default=False)
    node_grace: float = option(
        "How long a node may be silent to the others before the run goes on or ends without it.",
        default=120.0,
        unit="s",
        ge=1,
        le=86_400,
        group="several nodes",
    )
    unattended: Literal["stop", "continue"] = option(
        "What the ranks of a node do that has not heard of the leading node for node_grace.",
        default="stop",
        group="several nodes",
    )
    trusted_network: bool = option(
        "Everyone who reaches an address of the nodes may run code as you. torchrun's c10d rendezvous is "
        "started only with it: it unpickles what anyone writes into its store.",
        default=False,
        group="several nodes",
    )


class RunConfig(Section):
    """A whole run.toml. Only [run] must be written; paths are absolute once `load_config` has read it."""

    name: str = option(
        "Name of the run; absent: the file's name without .toml.",
        default="run",
        min_length=1,
        max_length=100,
        pattern=r"^[^/\\\x00-\x1f\x7f]*[^/\\\x00-\x1f\x7f\s][^/\\\x00-\x1f\x7f]*$",
        right='a name of 1 to 100 characters without slashes, such as "first-try"',
    )
    run: Run = table(Run, "What is executed: exactly one of recipe, script and module.")
    model: dict[str, Any] = option(
        "The recipe's model: options of a built-in recipe, or whatever a recipe file's build_model takes.",
        default={},
    )
    data: dict[str, Any] = option(
        "The recipe's data: options of a built-in recipe, or whatever a recipe file's build_data takes.",
        default={},
    )
    training: Training = table(Training, "How a recipe trains.")
    distributed: Distributed = table(Distributed, "How many ranks, where, and the strategy that joins them.")
    cluster: Cluster = table(Cluster, "Machines described here, which need not be reached to plan for them.")
    estimate: Estimate = table(
        Estimate, "A model by its size, to estimate memory where the model itself cannot be traced."
    )
    checkpoint: Checkpoint = table(
        Checkpoint, "When the state of training is saved, and what a start goes on from."
    )
    telemetry: Telemetry = table(Telemetry, "What is measured, and how often.")
    limits: Limits = table(Limits, "When a run is stopped for the sake of the machine or the clock.")
    launch: Launch = table(Launch, "How the run is supervised.")
