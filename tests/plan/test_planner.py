"""From a config to a plan."""

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.values.machines import byte_gpt, config, node, plan
from torchdeck.config.schema import RunConfig
from torchdeck.contract.inventory import Inventory
from torchdeck.contract.plan.launch_plan import CodeTree, LaunchPlan
from torchdeck.contract.plan.slots import SLOTS
from torchdeck.plan.planner import describe_placement
from torchdeck.plan.preview.preview import make_preview

VALUES = {name: f"/filled/{name}" for name in SLOTS}
TEXTS = st.text(st.sampled_from("@{}$'\"\\ \n") | st.characters(codec="utf-8", exclude_characters="\0"))


def test_what_ranks_execute() -> None:
    """A script, a module and a recipe are each started as Python would."""
    assert plan(config({"script": "/code/a.py", "args": ["-x", "1"]})).nodes[0].command == (
        *("/usr/bin/python3", "-u", "/code/a.py"),
        *("-x", "1"),
    )
    module = plan(config({"module": "pkg.train", "args": ["y"]}))
    assert module.nodes[0].command == ("/usr/bin/python3", "-u", "-m", "pkg.train", "y")
    assert (module.kind, module.target, module.batch) == ("module", "pkg.train", None)
    recipe = plan(byte_gpt())
    assert recipe.nodes[0].command == ("/usr/bin/python3", "-u", "-m", "torchdeck.distributed.entry")
    assert (recipe.kind, recipe.policy.cooperative_stop, recipe.stdout.enabled) == ("recipe", True, False)


@settings(deadline=None)
@given(st.lists(TEXTS), st.dictionaries(st.from_regex(r"\A[A-Z]{1,8}_V\Z"), TEXTS))
def test_filling_leaves_nothing_open_and_changes_nothing_else(args: list[str], env: dict[str, str]) -> None:
    """After filling, the user's texts are byte for byte theirs, and no slot is left anywhere."""
    made = plan(config({"script": "/code/@{port}.py", "args": args, "env": env}))
    part = made.filled(VALUES).nodes[0]
    assert part.command[2:] == ("/code/@{port}.py", *args)
    assert {name: part.env[name] for name in env} == env
    ours = [part.working_dir, *part.torchrun, *part.rank_holder]
    ours += [value for name, value in part.env.items() if name not in env]
    assert not any("@{" in text for text in ours)
    assert made.filled(VALUES).slots == {}


def test_slots_of_a_plan_are_those_it_uses() -> None:
    """What the plan says will be filled is what must be given."""
    made = plan(byte_gpt())
    assert set(made.slots) == {"run_id", "run_dir", "attempt", "port", "resume", "shipped"}
    for name in made.slots:
        with pytest.raises(ValueError, match=name):
            made.filled({other: "x" for other in made.slots if other != name})


@pytest.mark.parametrize(
    ("asked", "added"),
    [
        (config(), True),
        (config({"module": "a.train"}), True),
        (config(telemetry={"inside": False}), False),
        (byte_gpt(), False),
    ],
)
def test_callbacks_are_added_to_scripts_unless_switched_off(asked: RunConfig, *, added: bool) -> None:
    made = plan(asked)
    notes = make_preview(asked, made, Inventory((node(),))).notes
    said = [note for note in notes if "telemetry.inside = false" in note]
    assert (("inside" in made.slots), len(said)) == (added, int(added))
    assert ("@{inside}" in made.nodes[0].env["PYTHONPATH"]) == added


@settings(deadline=None)
@given(st.lists(TEXTS), st.integers(1, 4))
def test_a_plan_survives_its_file(args: list[str], gpus: int) -> None:
    """plan.json gives back the same plan with the same fingerprint."""
    made = plan(config({"script": "/x.py", "args": args}), node(gpus=gpus))
    read = LaunchPlan.from_json(json.loads(json.dumps(made.document())))
    assert read == dataclasses.replace(
        made, nodes=tuple(dataclasses.replace(part, env=dict(part.env)) for part in made.nodes)
    )
    assert read.fingerprint == made.fingerprint


@pytest.mark.parametrize(
    "changed",
    [
        {"run": {"script": "/code/train.py", "args": ["other"]}},
        {"run": {"script": "/code/train.py", "env": {"A": "1"}}},
        {"run": {"script": "/code/train.py", "working_dir": "/elsewhere"}},
        {"distributed": {"nproc": 2}},
        {"launch": {"max_restarts": 3}},
        {"checkpoint": {"resume": "never"}},
    ],
)
def test_the_fingerprint_follows_what_is_executed(changed: dict[str, Any]) -> None:
    """A change of what runs is another fingerprint."""
    assert plan(config(**changed)).fingerprint != plan().fingerprint


def test_the_fingerprint_follows_the_code_and_nothing_else() -> None:
    """Changed code is another fingerprint; a name or a warning is not."""
    made = plan()
    assert plan(code=CodeTree({"train.py": "ab"})).fingerprint != made.fingerprint
    assert plan(config(name="another")).fingerprint == made.fingerprint
    assert dataclasses.replace(made, warnings=("mind",)).fingerprint == made.fingerprint


def test_recipe_settings_are_what_ranks_read() -> None:
    """The JSON in TORCHDECK_RECIPE holds the whole of the config, decided, its one slot filled."""
    asked = byte_gpt(
        training={"steps": 5, "microbatch": 4, "lr": 0.1, "scaling": "linear"}, distributed={"nproc": 2}
    )
    part = plan(asked).filled(VALUES).nodes[0]
    value = json.loads(part.env["TORCHDECK_RECIPE"])
    assert value["version"] == 1
    assert value["recipe"] == "byte-gpt"
    assert value["model"]["context"] == asked.model["context"]
    assert value["data"]["source"] == "stdlib"
    assert value["training"]["scaled_lr"] == pytest.approx(0.2)
    assert value["training"]["betas"] == [0.9, 0.999]
    assert value["distributed"]["backend"] == "gloo"
    assert value["distributed"]["ddp"]["gradient_as_bucket_view"] is True
    written = asked.checkpoint.model_dump(exclude={"directory", "resume"})
    assert value["checkpoint"] == {**written, "directory": "/filled/run_dir/checkpoints", "auto": False}
    assert set(value["training"]) == {*asked.training.model_dump(), "scaled_lr"}


def test_a_users_text_in_recipe_settings_is_no_slot() -> None:
    """An `@{` in a path or option of the user's arrives as it is."""
    asked = config(
        {"recipe": "/code/@{port}.py"},
        model={"note": '@{resume} "x"', "@{key}": 1},
        training={"steps": 1},
        checkpoint={"directory": "/ck/@{run_id}"},
    )
    value = json.loads(plan(asked).filled(VALUES).nodes[0].env["TORCHDECK_RECIPE"])
    assert value["recipe"] == "/code/@{port}.py"
    assert value["model"] == {"note": '@{resume} "x"', "@{key}": 1}
    assert value["checkpoint"]["directory"] == "/ck/@{run_id}"


def test_environment_of_ranks() -> None:
    """Our variables, threads by cores, the user's PYTHONPATH behind ours, torchrun's defaults removed."""
    made = plan(
        config(distributed={"nproc": 3}), node(cores=8), environ={"PYTHONPATH": "/mine", "SECRET": "s"}
    )
    env = made.nodes[0].env
    assert env["OMP_NUM_THREADS"] == "2"
    assert env["PYTHONPATH"] == "@{shipped}@{inside}:/mine"
    assert env["TORCHDECK_RUN_ID"] == "@{run_id}"
    assert "SECRET" not in env
    assert "TORCHDECK_RECIPE" not in env
    assert made.nodes[0].unset == ("PET_*", "TORCH_ELASTIC_WORKER_IDENTICAL")


@pytest.mark.parametrize(
    ("own", "environ", "expected"),
    [({"OMP_NUM_THREADS": "5"}, {}, "5"), ({}, {"OMP_NUM_THREADS": "6"}, "6"), ({}, {}, "8")],
)
def test_threads_are_the_users_where_set(own: dict[str, str], environ: dict[str, str], expected: str) -> None:
    """OMP_NUM_THREADS of the config goes before the shell's, and that before ours."""
    asked = config({"script": "/x.py", "env": own})
    assert plan(asked, node(cores=8), environ=environ).nodes[0].env["OMP_NUM_THREADS"] == expected


def test_policy_follows_the_config() -> None:
    """What the leader decides by is what the config says, in seconds and bytes."""
    made = plan(
        config(
            launch={"max_restarts": 2, "on_hang": "restart", "queue": True},
            limits={"min_free_disk": "1GiB", "max_hours": 0.5},
        )
    )
    assert (made.policy.max_restarts, made.policy.on_hang, made.policy.queue) == (2, "restart", True)
    assert (made.policy.min_free_bytes, made.policy.max_seconds) == (2**30, 1800)


def test_too_many_ranks_for_the_cores_is_a_warning() -> None:
    """It runs, slowly, and is said."""
    made = plan(config(distributed={"nproc": 4}), node(cores=2))
    assert made.warnings == ("4 ranks share 2 cores on localhost: each gets one thread",)
    assert made.nodes[0].env["OMP_NUM_THREADS"] == "1"


def test_placement_in_one_line() -> None:
    """What a person sees first."""
    made = plan(config(distributed={"nproc": 2}))
    assert describe_placement(made) == "2 ranks on localhost (cpu), ddp over gloo"
