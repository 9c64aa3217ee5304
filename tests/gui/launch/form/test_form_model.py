"""What the form shows of a document, without widgets."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.values.run_files import MINIMAL, write
from torchdeck.config.keys import all_keys
from torchdeck.config.problems import Problem
from torchdeck.config.starting_files import preset_names, preset_text
from torchdeck_app.launch.document.checked_text import CheckRequest, check_document
from torchdeck_app.launch.form.form_groups import BASIC, heading_of, keys_by_group
from torchdeck_app.launch.form.form_model import FormModel
from torchdeck_app.launch.form.form_state import FieldState, FormState, more_of


def form(text: str, folder: Path = Path("/nowhere"), kind: str = "") -> FormState:
    """What it shows of `text`."""
    return FormModel(check_document(CheckRequest(0, text, None, folder)), kind=kind).state()


def field(text: str, name: str) -> FieldState:
    """One field of it."""
    return form(text).by_path[tuple(name.split("."))]


def test_every_key_has_one_field() -> None:
    """In one of the groups; keys that are there many times in the field of their table."""
    for recipe in ("byte-gpt", "bdh", "digits", "my.py", None):
        known = all_keys(recipe)
        paths = [key.path for keys in keys_by_group(recipe).values() for key in keys]
        assert len(paths) == len(set(paths))
        missing = {path for path in known if path not in paths and known[path].section is None}
        inside = {path for path in missing if path[:2] == ("cluster", "nodes")}
        recipes = {path for path in missing if path[0] in ("model", "data")}
        assert missing == inside | recipes
        assert (("model",) in paths) == (recipe in ("my.py", None))


def test_fields_of_a_heading_stand_together() -> None:
    """Whatever order the schema has them in."""
    for name, keys in keys_by_group("byte-gpt").items():
        if name == BASIC:
            continue
        headings = [heading_of(key) for key in keys]
        changes = [one for one, other in zip(headings, [None, *headings], strict=False) if one != other]
        assert len(changes) == len(set(changes))


def test_a_default_a_value_and_a_change() -> None:
    """The mark is for what differs from the default, the reset for what is written."""
    text = MINIMAL + "lr = 3e-4\naccumulation = 1\n"
    lr, accumulation, clip = (field(text, f"training.{key}") for key in ("lr", "accumulation", "clip"))
    assert (lr.value, lr.literal, lr.own, lr.changed) == (3e-4, "3e-4", True, True)
    assert (accumulation.value, accumulation.own, accumulation.changed) == (1, True, False)
    assert (clip.value, clip.own, clip.changed) == (None, False, False)


def test_a_size_is_compared_in_bytes() -> None:
    """Its default written in words is no change."""
    assert not field(MINIMAL + "[limits]\nmin_free_disk = '512MiB'\n", "limits.min_free_disk").changed
    assert field(MINIMAL + "[limits]\nmin_free_disk = '1GiB'\n", "limits.min_free_disk").changed


def test_what_the_base_file_says(tmp_path: Path) -> None:
    """It holds, and there is nothing to reset here."""
    write(tmp_path, MINIMAL, "base.toml")
    state = form("extends = 'base.toml'\n[training]\nlr = 0.5\n", tmp_path).by_path
    steps, lr = state[("training", "steps")], state[("training", "lr")]
    assert (steps.value, steps.own, steps.inherited, steps.changed) == (10, False, True, True)
    assert (lr.own, lr.inherited) == (True, False)
    assert state[("extends",)].value == "base.toml"


def test_fields_appear_where_they_matter() -> None:
    """By other values, defaults included."""
    assert not field(MINIMAL, "training.momentum").visible
    assert field(MINIMAL + "optimizer = 'sgd'\n", "training.momentum").visible
    assert field(MINIMAL, "distributed.ddp.static_graph").visible
    sharded = MINIMAL + "[distributed]\nstrategy = 'hsdp'\n"
    assert not field(sharded, "distributed.ddp.static_graph").visible
    assert field(sharded, "distributed.fsdp.cpu_offload").visible
    assert not field(sharded, "distributed.fsdp.min_params").visible


def test_a_key_without_effect_stays_where_it_is_written() -> None:
    """With a note that says when it has one."""
    state = field(MINIMAL + "momentum = 0.5\n", "training.momentum")
    assert state.visible
    assert state.note == "takes effect with training.optimizer = sgd only"


def test_a_script_has_no_training() -> None:
    """Nor what else only a recipe reads; a recipe has no arguments."""
    state = form("[run]\nscript = 'a.py'\n")
    seen = {group.name: group.visible for group in state.groups}
    assert (seen["training"], seen["model"], seen["launch"]) == (False, False, True)
    assert state.by_path[("run", "args")].visible
    assert not state.by_path[("checkpoint", "every")].visible
    assert not state.by_path[("run", "recipe")].visible
    assert not form(MINIMAL).by_path[("run", "args")].visible


def test_another_kind_is_offered_before_it_is_written() -> None:
    """The field of what is chosen, beside what is written still."""
    state = form(MINIMAL, kind="script").by_path
    assert [state[("run", kind)].visible for kind in ("recipe", "script", "module")] == [True, True, False]


def test_a_recipe_of_ones_own_has_free_tables() -> None:
    """As its builders take what they take."""
    text = "[run]\nrecipe = 'mine.py'\n[model]\nwidth = 3\n[training]\nsteps = 1\n"
    state = form(text).by_path
    assert state[("model",)].value == {"width": 3}
    assert ("model", "width") not in state


def test_problems_stand_at_their_fields() -> None:
    """In elements and in many tables too; those of no field at the group, those of no group above all."""
    text = (
        "nam = 1\n" + MINIMAL.replace("10", "0") + "lrr = 1\n[cluster]\n[[cluster.nodes]]\nname = 'a'\n"
        "[[cluster.nodes]]\nname = 'b['\n[telemetry]\npatterns = ['loss=(?P<loss>.)', 'x']\n"
    )
    state = form(text)
    wrong = {path for path, one in state.by_path.items() if one.problems}
    assert wrong == {
        ("training", "steps"),
        ("cluster", "nodes"),
        ("cluster", "nodes", 1, "name"),
        ("telemetry", "patterns"),
    }
    training = next(group for group in state.groups if group.name == "training")
    assert [problem.path for problem in training.problems] == ["training.lrr"]
    assert [problem.path for problem in state.problems] == ["nam"]
    assert training.problem_count == 1


def test_why_no_plan_can_be_made_stands_at_its_field() -> None:
    """It comes from elsewhere, as a plan knows more than a file; and only if the file itself is right."""
    problem = Problem("distributed.devices[0]", "", None, "there is no GPU 7", "another")
    checked = check_document(CheckRequest(0, MINIMAL, None, Path("/nowhere")))
    state = FormModel(checked, planned=(problem,)).state()
    assert state.by_path[("distributed", "devices")].problems == (problem,)
    wrong = check_document(CheckRequest(0, MINIMAL + "lrr = 1\n", None, Path("/nowhere")))
    assert FormModel(wrong, planned=(problem,)).state().by_path[("distributed", "devices")].problems == ()


@pytest.mark.parametrize("preset", preset_names())
def test_summaries_say_the_essential(preset: str) -> None:
    """Short, and of no value that is not there."""
    groups = {group.name: group.summary for group in form(preset_text(preset)).groups}
    assert groups["checkpoint"] or groups["launch"]
    assert all("None" not in summary and "{" not in summary for summary in groups.values())


def test_a_summary_by_value() -> None:
    """With units or names, numbers as they are written."""
    text = "[run]\nrecipe = 'byte-gpt'\n[training]\nsteps = 400\nlr = 4e-3\n"
    groups = {group.name: group.summary for group in form(text).groups}
    assert groups["training"] == "accumulation 1 · adamw · constant"
    assert groups["model"] == "heads 4 · vocabulary 256"
    assert groups["telemetry"] == "every step"
    groups = {group.name: group.summary for group in form(preset_text("quickstart")).groups}
    assert groups["checkpoint"] == "every 200 steps · keep last 2"


def test_basic_settings_are_few_and_first() -> None:
    """In the order in which people think: what to run, data, model, training, strategy, where."""
    basic = form(MINIMAL).groups[0]
    seen = [field.key.name for field in basic.fields if field.visible]
    assert seen[:2] == ["name", "run.recipe"]
    assert len(seen) < 20
    by_table = list(dict.fromkeys(name.partition(".")[0] for name in seen))
    assert by_table == ["name", "run", "data", "model", "training", "distributed"]


def test_a_script_has_basic_settings_of_its_own() -> None:
    """Its arguments and its Python, in place of data, model and training."""
    seen = [field.key.name for field in form("[run]\nscript = 'a.py'\n").groups[0].fields if field.visible]
    places = ["distributed.nodes", "distributed.nproc", "distributed.devices"]
    assert seen == ["name", "run.script", "run.args", "run.interpreter", *places]


def test_what_is_under_more_is_counted() -> None:
    """So that a closed heading hides neither problems nor changes."""
    state = form(MINIMAL + "accumulation = 2\nwarmup_steps = -1\n[limits]\nmemory = 'off'\n")
    more = more_of(state.groups[1:])
    assert (more.summary, more.problem_count) == ("3 changed", 1)
    assert more_of(form(MINIMAL).groups[1:]).summary == ""


def test_no_recipe_at_all_is_a_problem_of_what_is_basic() -> None:
    basic = form("[training]\nsteps = 1\n").groups[0]
    assert [problem.path for problem in basic.problems] == ["run"]


def test_lines_and_keys_lead_to_each_other() -> None:
    """A line inside a value to its key, a key that is not written to its table."""
    text = "# first\n[training]\nsteps = 10\nbetas = [\n  0.9,\n  0.95,\n]\n"
    checked = check_document(CheckRequest(0, text, None, Path("/nowhere")))
    assert checked.key_at(1) == ()
    assert checked.key_at(3) == ("training", "steps")
    assert checked.key_at(6)[:2] == ("training", "betas")
    assert checked.line_of(("training", "betas")) == 4
    assert checked.line_of(("training", "lr")) == 2
    assert checked.line_of(("launch", "queue")) is None
