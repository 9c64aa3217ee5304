"""Contradictions: individually valid values that conflict.

Each rule is a function of a valid config. It yields findings, and names the keys it used, so that a rule
is skipped if one of these is already known to be wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchdeck.config.keys import all_keys
from torchdeck.config.problems import shown
from torchdeck.config.rules.alert_rules import ALERT_RULES
from torchdeck.config.rules.findings import Finding, Given, Rule
from torchdeck.config.rules.placement_rules import PLACEMENT_RULES
from torchdeck.config.rules.slurm_rules import SLURM_RULES
from torchdeck.config.rules.table_rules import CHECKPOINT_RULES, ESTIMATE_RULES, RECIPE_RULES
from torchdeck.config.schema import BUILTIN_RECIPES, RunConfig
from torchdeck.config.spelling import nearest
from torchdeck.config.toml.document import KeyPath
from torchdeck.contract.metrics.former_names import current_name
from torchdeck.trainers.metric_roles import ROLES

# Contradictions of the options of DeepSpeed's ZeRO.

_STRATEGY: KeyPath = ("distributed", "strategy")
_STAGE: KeyPath = ("distributed", "deepspeed", "zero_stage")
_WEIGHTS_DIVIDED = 3


def offloaded_parameters(given: Given) -> Iterator[Finding]:
    """Only weights that are sharded among the ranks can be offloaded to the machine's memory."""
    distributed = given.config.distributed
    options = distributed.deepspeed
    if distributed.strategy != "deepspeed" or not options.offload_parameters:
        return
    if options.zero_stage != _WEIGHTS_DIVIDED:
        wrong = f"with zero_stage = {options.zero_stage} every device holds all weights"
        right = "zero_stage = 3, or no offload_parameters"
        yield Finding(("distributed", "deepspeed", "offload_parameters"), wrong, right, (_STAGE, _STRATEGY))


def ema(given: Given) -> Iterator[Finding]:
    """A rank averages the weights it computes with: they must be complete, and be the ones that train."""
    distributed, training = given.config.distributed, given.config.training
    if distributed.strategy != "deepspeed" or training.ema is None:
        return
    stage = distributed.deepspeed.zero_stage
    if stage == _WEIGHTS_DIVIDED or training.precision == "bf16":
        where = "zero_stage = 3" if stage == _WEIGHTS_DIVIDED else f'precision = "{training.precision}"'
        wrong = f"under DeepSpeed with {where} no rank has whole fp32 weights to average"
        right = 'no ema, or distributed.strategy = "fsdp"'
        yield Finding(("training", "ema"), wrong, right, (_STAGE, _STRATEGY, ("training", "precision")))


DEEPSPEED_RULES: tuple[Rule, ...] = (offloaded_parameters, ema)


# Rules on a recipe's training outside its steps: early stopping, traces.

_PATIENCE, _MIN_DELTA = ("training", "patience"), ("training", "min_delta")
_EVAL_EVERY, _STEPS = ("training", "eval_every"), ("training", "steps")
_PROFILE_STEPS: KeyPath = ("telemetry", "profile_steps")


def early_stopping(given: Given) -> Iterator[Finding]:
    """Patience is counted in evaluations, and min_delta is in the unit they are compared in."""
    training = given.config.training
    if training.patience is not None and training.eval_every is None:
        wrong = "patience counts evaluations, and there are none: training.eval_every is not set"
        yield Finding(_PATIENCE, wrong, "training.eval_every = 100, or no patience", (_EVAL_EVERY,))
    if training.min_delta and training.patience is None:
        wrong = "it has no effect without training.patience"
        yield Finding(_MIN_DELTA, wrong, "training.patience = 3, or no min_delta", (_PATIENCE,))


def profile_steps(given: Given) -> Iterator[Finding]:
    """The profiled window of steps begins at a step that training reaches."""
    window, steps = given.config.telemetry.profile_steps, given.config.training.steps
    if window is None:
        return
    first, last = window
    right = "two steps from 1 on, the second not before the first, such as [10, 12]"
    if first < 1 or last < first:
        yield Finding(_PROFILE_STEPS, f"steps {first} to {last} are outside of the training", right)
    elif steps is not None and first > steps:
        wrong = f"training ends at step {steps}, before step {first}"
        yield Finding(_PROFILE_STEPS, wrong, f"steps up to {steps}", (_STEPS,))


TRAINING_RULES: tuple[Rule, ...] = (early_stopping, profile_steps)


RUN_KINDS = (("run", "recipe"), ("run", "script"), ("run", "module"))
RECIPE_KEYS: tuple[KeyPath, ...] = (
    ("checkpoint", "every"), ("checkpoint", "keep_last"), ("checkpoint", "final"), ("telemetry", "every"),
    ("checkpoint", "keep_every"), ("checkpoint", "keep_best"), ("checkpoint", "best_metric"),
    ("checkpoint", "replicas"),
    ("checkpoint", "best_is"), ("distributed", "timeout"), ("distributed", "ddp"), ("distributed", "fsdp"),
    ("distributed", "hsdp"), ("distributed", "deepspeed"), ("checkpoint", "every_epochs"),
    ("checkpoint", "mtbf"), ("checkpoint", "max_stall"), ("checkpoint", "background"),
    ("telemetry", "stats_every"), ("telemetry", "profile_steps"),
)  # fmt: skip

OF_RECIPES = ("model", "data", "training")
_MODULE = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SET_BY_LAUNCHER = re.compile(
    r"(?:TORCHDECK_|PET_|TORCHELASTIC_).*|RANK|LOCAL_RANK|GROUP_RANK|ROLE_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE"
    r"|MASTER_ADDR|MASTER_PORT"
)


def is_for_recipes(path: KeyPath) -> bool:
    """Return whether only a recipe reads the key; a script or module does not."""
    return path[:1] in [(table,) for table in OF_RECIPES] or any(
        path[: len(key)] == key for key in RECIPE_KEYS
    )


def one_kind(given: Given) -> Iterator[Finding]:
    """Exactly one of recipe, script and module is set."""
    kinds = [path for path in RUN_KINDS if given.written(path)]
    if not kinds:
        right = 'exactly one of recipe, script and module in [run], such as recipe = "byte-gpt"'
        yield Finding(("run",), "neither recipe, script nor module is set", right, RUN_KINDS)
    for path in kinds[1:]:
        wrong = f"{path[-1]} and {kinds[0][-1]} are both given"
        yield Finding(path, wrong, "exactly one of recipe, script and module", RUN_KINDS)


def recipe_name(given: Given) -> Iterator[Finding]:
    """A recipe is a built-in name or a Python file."""
    recipe = given.config.run.recipe
    if recipe is None or recipe in BUILTIN_RECIPES or recipe.endswith(".py"):
        return
    near = nearest(recipe, BUILTIN_RECIPES)
    known = ", ".join(map(shown, BUILTIN_RECIPES))
    right = f"{shown(near[0])}" if near else f"a built-in recipe ({known}) or the path of a .py file"
    yield Finding(("run", "recipe"), f"{shown(recipe)} is neither a built-in recipe nor a .py file", right)


def recipe_only(given: Given) -> Iterator[Finding]:
    """Tables that only a recipe reads; a script or module reads its own arguments."""
    run = given.config.run
    if run.recipe is None and (run.script is not None or run.module is not None):
        what = "script" if run.script is not None else "module"
        for table in OF_RECIPES:
            if given.written((table,)):
                wrong = f"a {what} cannot read [{table}], only a recipe can"
                yield Finding(
                    (table,), wrong, f"no [{table}]; give the {what} its options in run.args", RUN_KINDS
                )
    if run.recipe is not None and run.args:
        right = "no run.args; a recipe's options belong in [model] and [data]"
        yield Finding(("run", "args"), "a recipe takes no arguments", right, RUN_KINDS)
    if run.recipe is not None and run.resume_args:
        wrong, right = "a recipe resumes by itself", "no run.resume_args"
        yield Finding(("run", "resume_args"), wrong, right, RUN_KINDS)


def recipe_keys(given: Given) -> Iterator[Finding]:
    """Keys outside those tables that only a recipe's training reads."""
    run = given.config.run
    if run.recipe is None and (run.script is not None or run.module is not None):
        what = "script" if run.script is not None else "module"
        for path in RECIPE_KEYS:
            if given.written(path):
                wrong = f"a {what} cannot read it, only a recipe can"
                yield Finding(
                    path, wrong, f"no {path[-1]}; give the {what} its options in run.args", RUN_KINDS
                )


def restarts(given: Given) -> Iterator[Finding]:
    """A restart on a hang needs permission to restart, with all ranks or with fewer."""
    launch, distributed = given.config.launch, given.config.distributed
    ranges = isinstance(distributed.nproc, str) or isinstance(distributed.nodes, str)
    fixed = not ranges and not distributed.spare
    if launch.on_hang == "exclude" and fixed:
        wrong = "no rank or node can be left out: nproc and nodes are no ranges, and there is no spare node"
        right = 'distributed.nproc = "3:4", distributed.nodes = "1:2" or distributed.spare; or "restart"'
        others = (("distributed", "nproc"), ("distributed", "nodes"), ("distributed", "spare"))
        yield Finding(("launch", "on_hang"), wrong, right, others)
    if launch.on_hang == "restart" and launch.max_restarts == 0 and fixed:
        wrong = "no restart is allowed: launch.max_restarts is 0"
        right = 'launch.max_restarts = 1 or more, or on_hang = "stop"'
        yield Finding(("launch", "on_hang"), wrong, right, (("launch", "max_restarts"),))


def module_name(given: Given) -> Iterator[Finding]:
    """A module is named as after `python -m`."""
    module = given.config.run.module
    if module is not None and _MODULE.fullmatch(module) is None:
        right = 'a dotted name such as "mypackage.train"; a file is given as run.script'
        yield Finding(("run", "module"), f"{shown(module)} is not a module's name", right)


def environment(given: Given) -> Iterator[Finding]:
    """Variables can be set, and are not the launcher's."""
    for name in given.config.run.env:
        yield from _variable(("run", "env", name), name)


def secrets(given: Given) -> Iterator[Finding]:
    """Names of variables, each once, with no values in the file."""
    run = given.config.run
    for index, name in enumerate(run.secrets):
        path = ("run", "secrets", index)
        yield from _variable(path, name)
        if name in run.secrets[:index]:
            yield Finding(path, f"{shown(name)} is listed twice", "each name once")
        elif name in run.env:
            wrong = f"{shown(name)} is listed as a secret, but its value is in [run.env]"
            yield Finding(path, wrong, "one of the two", (("run", "env", name),))


def _variable(path: KeyPath, name: str) -> Iterator[Finding]:
    if _VARIABLE.fullmatch(name) is None:
        wrong = f"{shown(name)} is not a name that a shell can export"
        yield Finding(path, wrong, "letters, digits and _, not beginning with a digit")
    elif _SET_BY_LAUNCHER.fullmatch(name):
        yield Finding(path, f"{name} is set by the launcher for each rank", f"no {name} here")
    elif name == "CUDA_VISIBLE_DEVICES":
        yield Finding(path, f"{name} follows from distributed.devices", "distributed.devices = [0, 1]")


def length(given: Given) -> Iterator[Finding]:
    """Exactly one of steps and epochs is set, and the warm-up fits."""
    training = given.config.training
    steps, epochs, warmup = (("training", name) for name in ("steps", "epochs", "warmup_steps"))
    if given.config.run.recipe is None:
        return
    if training.steps is None and training.epochs is None:
        wrong = "neither steps nor epochs are set"
        yield Finding(("training",), wrong, "training.steps or training.epochs", (steps, epochs, *RUN_KINDS))
    if training.steps is not None and training.epochs is not None:
        yield Finding(epochs, "steps and epochs are both given", "one of the two", (steps,))
    if training.steps is not None and training.warmup_steps > training.steps:
        wrong = f"a warm-up of {training.warmup_steps} steps is longer than the training of {training.steps}"
        yield Finding(warmup, wrong, f"at most {training.steps}", (steps,))


def batch_plan(given: Given) -> Iterator[Finding]:
    """A batch plan defines the microbatch, and is what can be balanced."""
    training = given.config.training
    plan, balance, microbatch = (("training", name) for name in ("batch_plan", "balance", "microbatch"))
    if given.config.run.recipe is None:
        return
    if training.batch_plan is None and training.balance != "none":
        wrong = f"{shown(training.balance)} balances the microbatches of a batch plan, and there is none"
        yield Finding(balance, wrong, 'training.batch_plan = "FOLDER", or no balance', (plan, *RUN_KINDS))
    if training.batch_plan is not None and given.written(microbatch):
        wrong = "the batch plan determines the samples of a microbatch"
        yield Finding(microbatch, wrong, "no microbatch, or no batch_plan", (plan, *RUN_KINDS))


def ddp_options(given: Given) -> Iterator[Finding]:
    """Find options that DistributedDataParallel refuses or warns about; found by trying torch 2.13."""
    distributed, training = given.config.distributed, given.config.training
    static, unused = (("distributed", "ddp", name) for name in ("static_graph", "find_unused_parameters"))
    strategy, accumulation = ("distributed", "strategy"), ("training", "accumulation")
    if distributed.strategy != "ddp" or not distributed.ddp.static_graph:
        return
    if distributed.ddp.find_unused_parameters:
        wrong = "static_graph finds unused parameters by itself"
        yield Finding(unused, wrong, "false, or no static_graph", (static, strategy))
    if training.accumulation > 1 and given.config.run.recipe is not None:
        # it records the graph in a backward that reduces: a rank that has just started reduces its first
        # microbatch by itself, one that continues does not, and they round differently
        wrong = "a training with static_graph and accumulation is not resumed bit for bit"
        yield Finding(static, wrong, "false, or accumulation = 1", (accumulation, strategy, *RUN_KINDS))


def powersgd(given: Given) -> Iterator[Finding]:
    """An overflow, by which the loss scaler of fp16 finds its scale, would stay in PowerSGD's memory."""
    distributed, training = given.config.distributed, given.config.training
    if distributed.strategy != "ddp" or distributed.ddp.comm_hook != "powersgd":
        return
    if training.precision == "fp16" and given.config.run.recipe is not None:
        wrong = '"powersgd" keeps gradients between steps, and fp16 gradients can overflow'
        uses: tuple[KeyPath, ...] = (("training", "precision"), ("distributed", "strategy"), *RUN_KINDS)
        yield Finding(
            ("distributed", "ddp", "comm_hook"), wrong, '"bf16" or "none", or precision = "bf16"', uses
        )


def fsdp_dtypes(given: Given) -> Iterator[Finding]:
    """One 16-bit format: the loss scaler belongs to fp16 alone."""
    distributed, precision = given.config.distributed, given.config.training.precision
    if distributed.strategy not in ("fsdp", "hsdp") or precision == "fp32":
        return
    for name in ("param_dtype", "reduce_dtype"):
        dtype = getattr(distributed.fsdp, name)
        if dtype not in ("auto", "fp32", precision):
            wrong = f'{shown(dtype)} cannot be used with training.precision = "{precision}"'
            uses: tuple[KeyPath, ...] = (("training", "precision"), ("distributed", "strategy"))
            yield Finding(("distributed", "fsdp", name), wrong, f'"auto", "fp32" or "{precision}"', uses)


def resume(given: Given) -> Iterator[Finding]:
    """A misspelt word is not a path."""
    text = given.config.checkpoint.resume
    near = nearest(text, ("auto", "never"))
    if text not in ("auto", "never") and "/" not in text and near:
        right = f'"{near[0]}", or ./{text} if it is a path'
        yield Finding(("checkpoint", "resume"), f"{shown(text)} is neither a known word nor a path", right)


def patterns(given: Given) -> Iterator[Finding]:
    """Regular expressions compile and name what they find."""
    for index, pattern in enumerate(given.config.telemetry.patterns):
        path = ("telemetry", "patterns", index)
        right = all_keys()[("telemetry", "patterns")].expected
        try:
            names = set(re.compile(pattern).groupindex) - {"step"}
        except (re.error, OverflowError, RecursionError) as error:
            yield Finding(path, f"{shown(pattern)} is not a regular expression: {error}", right)
            continue
        if not names:
            wrong = f"{shown(pattern)} has no named group besides step, so it finds no number"
            yield Finding(path, wrong, "a group such as (?P<loss>\\S+)")


def metric_names(given: Given) -> Iterator[Finding]:
    """Names are given to roles that exist."""
    for role, name in given.config.telemetry.names.items():
        if current_name(role) not in ROLES:
            near = nearest(role, ROLES) or ROLES
            yield Finding(
                ("telemetry", "names", role), f"{shown(role)} is not a role of a metric", " or ".join(near)
            )
        elif not name:
            yield Finding(("telemetry", "names", role), "the name is empty", "a metric of the script")


def without_effect(given: Given) -> Iterator[Finding]:
    """A key is changed from its default although another key's value leaves it without effect."""
    for path, key in all_keys().items():
        if key.section is not None or key.recipes or not key.visible_if or not given.written(path):
            continue
        if _value(given.config, path) == key.default:
            continue
        for name, values in key.visible_if.items():
            other = tuple(name.split("."))
            actual = _value(given.config, other)
            if actual not in values:
                right = f"no {path[-1]}, or {name} = " + " or ".join(shown(value) for value in values)
                wrong = f"it has no effect with {name} = {shown(actual)}"
                yield Finding(path, wrong, right, (other, *RUN_KINDS))
                break


def _value(config: RunConfig, path: tuple[str, ...]) -> object:
    value: object = config
    for key in path:
        value = getattr(value, key)
    return value


RULES: tuple[Rule, ...] = (
    one_kind, recipe_name, recipe_only, recipe_keys, restarts, module_name, environment, secrets, length,
    batch_plan, *PLACEMENT_RULES, *ESTIMATE_RULES, ddp_options, powersgd, fsdp_dtypes, *DEEPSPEED_RULES,
    *RECIPE_RULES, *CHECKPOINT_RULES, *TRAINING_RULES, *ALERT_RULES, *SLURM_RULES, resume, patterns,
    metric_names, without_effect,
)  # fmt: skip


def contradictions(given: Given, doubtful: tuple[KeyPath, ...]) -> list[Finding]:
    """Return all contradictions in a valid config.

    Args:
        given: the config, and which of its keys are set.
        doubtful: keys and tables already found wrong or misspelt; findings that depend on them are left out.
    """

    def relies_on_doubtful(finding: Finding) -> bool:
        return any(path[: len(bad)] == bad for path in (finding.path, *finding.uses) for bad in doubtful)

    return [finding for rule in RULES for finding in rule(given) if not relies_on_doubtful(finding)]
