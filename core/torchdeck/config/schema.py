"""Schema of run.toml: the source of validation, documentation, the JSON schema and the form.

Strict: an integer is accepted for a number, and nothing else is converted.
Contradictions between keys are found in `torchdeck.config.rules.contradictions`, not here.
"""

from __future__ import annotations

from typing import Any, Literal

from torchdeck.config.alerts.alert_table import Alerts
from torchdeck.config.distributed import DdpOptions, Distributed, FsdpOptions, Rendezvous
from torchdeck.config.estimate import Estimate
from torchdeck.config.machines.cluster import Cluster, ClusterNodes
from torchdeck.config.machines.slurm import Slurm
from torchdeck.config.problems import shown
from torchdeck.config.supervision import Launch, Limits
from torchdeck.config.tables.sweep import Sweep
from torchdeck.config.training import Training
from torchdeck.options import Section, option, table
from torchdeck.recipes.options.bdh import BdhModel
from torchdeck.recipes.options.byte_finetune import ByteFinetuneModel, PairsData
from torchdeck.recipes.options.byte_gpt import ByteGptModel
from torchdeck.recipes.options.digits import DigitsData, DigitsModel
from torchdeck.recipes.options.hugging_face import CausalLanguageModel, ConversationData
from torchdeck.recipes.options.image_folder import ImageFolderData, ResNetModel
from torchdeck.recipes.options.text import TextData

__all__ = [
    "BUILTIN_RECIPES",
    "Alerts",
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
    "Slurm",
    "Sweep",
    "Telemetry",
    "Training",
]

BUILTIN_RECIPES: dict[str, tuple[type[Section], type[Section]]] = {
    "byte-gpt": (ByteGptModel, TextData),
    "bdh": (BdhModel, TextData),
    "digits": (DigitsModel, DigitsData),
    "byte-finetune": (ByteFinetuneModel, PairsData),
    "image-folder": (ResNetModel, ImageFolderData),
    "hf-causal-lm": (CausalLanguageModel, ConversationData),
}
"""Recipes that come with Torchdeck → the schemas of their [model] and [data] tables."""


class Run(Section):
    """The [run] table: what is executed."""

    recipe: str | None = option(
        "A built-in recipe, or a Python file that defines model, data and loss.",
        default=None,
        path=True,
        min_length=1,
        right=f"{', '.join(map(shown, BUILTIN_RECIPES))}, or the path of a .py file",
    )
    script: str | None = option(
        "A Python script that torchrun can start, unchanged.",
        default=None,
        path=True,
        min_length=1,
        right='the path of a script, such as "train.py"',
    )
    module: str | None = option(
        "A Python module to run as with python -m.",
        default=None,
        min_length=1,
        right='a dotted module name, such as "mypackage.train"',
    )
    args: list[str] = option(
        "Arguments of the script or module.",
        label="Arguments",
        default=[],
        right='a list of strings, such as ["--epochs", "3"]',
    )
    resume_args: list[str] = option(
        "Arguments with which the script or module continues from its own newest checkpoint, in addition to "
        "args. @{checkpoint} stands for that checkpoint's path. Default: as known of its trainer.",
        label="Resume arguments",
        default=[],
        right='a list of strings, such as ["--resume", "@{checkpoint}"]',
    )
    env: dict[str, str] = option(
        "Environment variables of the ranks.",
        label="Environment variables",
        default={},
        right='a table of strings, such as {NAME = "value"}',
    )
    secrets: list[str] = option(
        "Environment variables whose values are passed from the launching shell to the ranks. They "
        "are not written to any file.",
        default=[],
        right='a list of names of environment variables, such as ["WANDB_API_KEY"]',
    )
    working_dir: str | None = option(
        "Folder in which the ranks start. Default: the folder of the run file.",
        label="Working directory",
        default=None,
        path=True,
        min_length=1,
    )
    launcher: Literal["torchrun", "python"] = option(
        "torchrun: one process per rank. python: one plain process on one node, for a script that starts its "
        "own ranks or needs none. It gets all chosen GPUs, and none of torchrun's variables.",
        default="torchrun",
    )
    sync: Literal["auto", "none"] = option(
        "auto: each run executes its own copy of the working directory, which is sent to other "
        "nodes. none: the files are used in place, at the same path on every node.",
        label="Copy code",
        default="auto",
    )
    interpreter: str | None = option(
        "Python of the ranks; it must have torch. Default: Torchdeck's own Python.",
        default=None,
        path=True,
        min_length=1,
        right="the path of a Python interpreter, or a command found on PATH",
    )
    environment: Literal["uv"] | None = option(
        "uv: each node makes an environment for its ranks from uv.lock, requirements.txt or pyproject.toml "
        "of the working directory, for the Python that interpreter names. Runs with the same files share it. "
        "Without it, ranks use that Python's own packages. Default: none.",
        default=None,
    )


class Checkpoint(Section):
    """The [checkpoint] table: when the state of training is saved, and which checkpoint a start resumes
    from.
    """

    every: int | Literal["auto"] | None = option(
        "Steps between checkpoints. auto: computed from the duration of a save and from mtbf. "
        "Default: only at a stop and at the end.",
        label="Checkpoint every",
        default=None,
        unit="steps",
        right='a number of steps from 1, or "auto"',
    )
    every_epochs: int | None = option(
        "Epochs between checkpoints, instead of steps or in addition. Default: none.",
        label="Checkpoint every epochs",
        default=None,
        unit="epochs",
        ge=1,
    )
    mtbf: float = option(
        'Mean time between failures of the whole run, for every = "auto".',
        label="Time between failures",
        default=24.0,
        unit="h",
        gt=0,
    )
    max_stall: float = option(
        'Largest fraction of the time that saving may take with every = "auto".',
        label="Maximum time for saving",
        default=0.035,
        gt=0,
        le=0.5,
    )
    background: bool = option(
        "Continue training while a checkpoint is written. Needs main memory for a copy of the saved state.",
        label="Save in background",
        default=False,
    )
    keep_last: int = option(
        "Number of newest checkpoints to keep. The final one is always kept.",
        label="Keep newest",
        default=2,
        ge=1,
    )
    keep_every: int | None = option(
        "Checkpoints whose step is a multiple of this are kept forever. Default: none.",
        label="Keep every",
        default=None,
        unit="steps",
        ge=1,
    )
    keep_best: int = option(
        "Number of checkpoints with the best values of best_metric to keep in addition.",
        label="Keep best",
        default=0,
        ge=0,
    )
    best_metric: str = option(
        "Metric of evaluations that decides which checkpoints are best.",
        default="validation_loss",
        min_length=1,
    )
    best_is: Literal["lowest", "highest"] = option(
        "Whether the lowest or the highest value of best_metric is best.", default="lowest"
    )
    directory: str | None = option(
        "Folder of the checkpoints. Default: checkpoints in the run's directory.",
        default=None,
        path=True,
        min_length=1,
    )
    resume: str = option(
        "auto: continue from this run's newest complete checkpoint. never: start from the beginning. A path: "
        "continue from that checkpoint.",
        label="Resume from",
        default="auto",
        path=True,
        min_length=1,
        right='"auto", "never", or the path of a checkpoint',
    )
    final: bool = option("Save a checkpoint named final at the end.", label="Final checkpoint", default=True)
    replicas: int = option(
        "Number of other nodes that keep a copy of each node's part of a checkpoint, for nodes "
        "without a shared folder. With 1, the run can continue from its newest checkpoint without "
        "any one node.",
        label="Copies on other nodes",
        default=0,
        unit="nodes",
        ge=0,
        le=16,
    )


class Telemetry(Section):
    """The [telemetry] table: metrics and their intervals."""

    every: int = option(
        "Steps between rows of metrics.", label="Metrics every", default=1, unit="steps", ge=1
    )
    stats_every: int | None = option(
        "Steps between statistics of every gradient and weight tensor. Default: none.",
        label="Tensor statistics every",
        default=None,
        unit="steps",
        ge=1,
    )
    profile_steps: tuple[int, int] | None = option(
        "First and last step that torch.profiler records, as a trace in each rank's folder. Default: none.",
        label="Profiled steps",
        default=None,
        unit="steps",
        strict=False,
        right="two steps, the second not before the first, such as [10, 12]",
    )
    stdout: bool = option(
        "Read loss and other numbers from standard output and standard error of a script.",
        label="Read printed metrics",
        default=True,
    )
    patterns: list[str] = option(
        "Regular expressions for lines of output, tried before the known formats. Named groups name "
        "the metrics.",
        label="Log patterns",
        default=[],
        right="a list of regular expressions with named groups, such as ['loss=(?P<loss>\\S+)']",
    )
    names: dict[str, str] = option(
        "Names of the script's own metrics by role: loss, validation_loss, lr, grad_norm, tokens_per_s, "
        "samples_per_s, step_time or epoch. Default: the usual names of known programs.",
        label="Metric names",
        default={},
        right='a table of role and name, such as {loss = "actor/pg_loss"}',
    )
    inside: bool = option(
        "Add callbacks to the trainer that a script uses (Hugging Face Trainer, Lightning, Accelerate, "
        "DeepSpeed, torchtitan): exact steps and metrics, and a checkpoint when the run is stopped, if the "
        "trainer can save one. In other scripts optimizer steps are counted.",
        label="Trainer callbacks",
        default=True,
    )
    system_interval: float = option(
        "Time between samples of CPU, memory, disk, network and GPUs.",
        label="System metrics interval",
        default=1.0,
        unit="s",
        ge=0.1,
        le=3600,
    )


class RunConfig(Section):
    """A whole run.toml. Only [run] is required; paths are absolute once `load_config` has read it."""

    name: str = option(
        "Name of the run. Default: the file's name without .toml.",
        label="Name",
        default="run",
        min_length=1,
        max_length=100,
        pattern=r"^[^/\\\x00-\x1f\x7f]*[^/\\\x00-\x1f\x7f\s][^/\\\x00-\x1f\x7f]*$",
        right='a name of 1 to 100 characters without slashes, such as "first-try"',
    )
    run: Run = table(Run, "What to execute: exactly one of recipe, script and module.")
    model: dict[str, Any] = option(
        "Options of the recipe's model: those of a built-in recipe, or whatever build_model of a "
        "recipe file takes.",
        default={},
    )
    data: dict[str, Any] = option(
        "Options of the recipe's data: those of a built-in recipe, or whatever build_data of a "
        "recipe file takes.",
        default={},
    )
    training: Training = table(Training, "How a recipe trains.")
    distributed: Distributed = table(
        Distributed, "Number of ranks, their nodes and devices, and the strategy."
    )
    cluster: Cluster = table(
        Cluster, "Descriptions of machines, which need not be reachable to plan for them."
    )
    estimate: Estimate = table(Estimate, "Size of a model that cannot be traced, to estimate its memory.")
    checkpoint: Checkpoint = table(
        Checkpoint, "When checkpoints are saved, which are kept, and where a start continues."
    )
    telemetry: Telemetry = table(Telemetry, "What is measured, and how often.")
    limits: Limits = table(Limits, "When a run is stopped to protect the machine, or after a time.")
    launch: Launch = table(Launch, "How the run is supervised.")
    sweep: Sweep = table(Sweep, "Variants of the run that `torchdeck sweep` tries.")
    slurm: Slurm = table(Slurm, "Options of the job that an exported sbatch script asks of Slurm.")
    alerts: Alerts = table(Alerts, "Messages about the run: which events are reported, and to whom.")

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the names of environment variables whose values are handed over at the start: to the ranks,
        and for alerts.
        """
        return tuple(dict.fromkeys((*self.run.secrets, *self.alerts.secrets)))
