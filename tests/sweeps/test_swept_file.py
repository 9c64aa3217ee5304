"""The run file of a sweep: parameters that fit it, and what each trial sets."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchdeck.config.problems import ConfigError
from torchdeck.sweeps.swept_file import (
    SweptFile,
    check_seeds,
    differences,
    filled_in,
    read_space,
    run_name,
    trial_overrides,
)

RECIPE = '[run]\nrecipe = "digits"\n[training]\nsteps = 10\n[distributed]\nnproc = 1\ndevices = "cpu"\n'
SCRIPT = '[run]\nscript = "train.py"\nargs = ["--lr", "{lr}", "--width={model.width}", "--json", "{}"]\n'


def swept(tmp_path: Path, text: str) -> SweptFile:
    return SweptFile(text, tmp_path / "first.toml", is_file=True)


def wrong(tmp_path: Path, text: str, *over: str) -> list[tuple[str, str, str]]:
    with pytest.raises(ConfigError) as caught:
        read_space(over, swept(tmp_path, text))
    assert {each.file for each in caught.value.problems} == {"--over"}
    return [(each.path, each.wrong, each.right) for each in caught.value.problems]


def test_keys_of_the_run_file_are_parameters(tmp_path: Path) -> None:
    over = ("training.lr=1e-4..1e-2:log", "training.optimizer=adamw,sgd", "run.env.MODE=a,b")
    assert [each.name for each in read_space(over, swept(tmp_path, RECIPE))] == [
        "training.lr", "training.optimizer", "run.env.MODE",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("over", "path", "right"),
    [
        ("training.lrr=1,2", "training.lrr", "training.lr"),
        ("microbatch=1,2", "microbatch", "training.microbatch, or {microbatch} in run.args"),
        ("training.optimizer=adamw,sgdd", "training.optimizer", '"sgd"; the choices are'),
        ("training.lr=0..1", "training.lr", "a number, greater than 0"),
        ("training.lr=fast,0.1", "training.lr", "a number, greater than 0"),
        ("training.microbatch=0.5,1", "training.microbatch", "a whole number of samples, at least 1"),
    ],
)
def test_a_wrong_key_or_value_is_refused_with_what_was_expected(
    tmp_path: Path, over: str, path: str, right: str
) -> None:
    ((found, _, expected),) = wrong(tmp_path, RECIPE, over)
    assert found == path
    assert right in expected


def test_every_problem_is_reported_at_once(tmp_path: Path) -> None:
    found = wrong(tmp_path, RECIPE, "training.lrr=1,2", "lr", "training.lr=1,2", "training.lr=3,4")
    assert [path for path, _, _ in found] == ["training.lrr", "lr", "training.lr"]


def test_values_that_only_some_combinations_allow_are_accepted(tmp_path: Path) -> None:
    """momentum is for sgd alone: a trial with adamw is infeasible, the space is not."""
    over = ("training.optimizer=adamw,sgd", "training.momentum=0.5,0.9")
    assert len(read_space(over, swept(tmp_path, RECIPE))) == 2
    ((path, what, _),) = wrong(tmp_path, RECIPE, over[1])
    assert path == "training.momentum"
    assert "has no effect" in what


def test_a_script_takes_placeholders(tmp_path: Path) -> None:
    file = swept(tmp_path, SCRIPT)
    config = file.loaded().config
    space = read_space(("lr=0.1,0.2", "model.width=8..64:int", "distributed.nproc=1,2"), file)
    point = {"lr": 0.1, "model.width": 16, "distributed.nproc": 2}
    assert [each.name for each in space] == list(point)
    overrides = trial_overrides(config, point, 0, "n")
    assert overrides == (
        "distributed.nproc=2",
        'run.args=["--lr", "0.1", "--width=16", "--json", "{}"]',
        'name="n"',
        "launch.queue=true",
    )
    assert file.loaded(overrides).config.run.args[1] == "0.1"


def test_a_placeholder_that_the_arguments_lack_is_refused(tmp_path: Path) -> None:
    ((path, _, right),) = wrong(tmp_path, SCRIPT, "lrr=1,2")
    assert (path, right) == ("lrr", "a key of the run file, or {lrr} in run.args")


def test_a_recipe_gets_its_keys_and_its_seed(tmp_path: Path) -> None:
    config = swept(tmp_path, RECIPE).loaded().config
    first = trial_overrides(config, {"training.lr": 0.5}, 0, "n")
    second = trial_overrides(config, {"training.lr": 0.5}, 1, "n")
    assert first == ("training.lr=0.5", 'name="n"', "launch.queue=true")
    assert second == ("training.lr=0.5", "training.seed=1", 'name="n"', "launch.queue=true")


def test_several_seeds_need_a_program_that_takes_one(tmp_path: Path) -> None:
    recipe, script = swept(tmp_path, RECIPE), swept(tmp_path, SCRIPT)
    check_seeds(3, (), recipe.loaded().config)
    check_seeds(1, (), script.loaded().config)
    with pytest.raises(ConfigError, match="does not take the seed"):
        check_seeds(3, (), script.loaded().config)
    with pytest.raises(ConfigError, match="varied already"):
        check_seeds(2, read_space(("training.seed=1,2",), recipe), recipe.loaded().config)
    taking = swept(tmp_path, SCRIPT.replace('"{}"', '"{seed}"'))
    check_seeds(3, (), taking.loaded().config)
    assert '"2"' in trial_overrides(taking.loaded().config, {"lr": 1}, 2, "n")[0]


def test_braces_of_other_names_stay() -> None:
    assert filled_in('{"lr": {lr}, "x": {x}}', {"lr": 0.1}) == '{"lr": 0.1, "x": {x}}'
    assert filled_in("{flag}{text}", {"flag": True, "text": "a b"}) == "truea b"


def test_a_name_says_what_differs(tmp_path: Path) -> None:
    point = {"training.lr": 0.00123456, "model.width": 8, "estimate.width": 9}
    assert differences(point) == "lr=0.001235 model.width=8 estimate.width=9"
    assert run_name("first", "1f09ab", 3, None, {"lr": 1}) == "first 1f09ab #3 lr=1"
    assert run_name("first", "1f09ab", 3, 0, {"lr": 1}).startswith("first 1f09ab #3.1 ")
    assert run_name("first", "1f09ab", 3, None, {"lr": 1}, 2) == "first 1f09ab #3 try 2 lr=1"
    long = run_name("x" * 100, "1f09ab", 3, None, {"data.source": "/a/b\n" * 50})
    assert len(long) == 100
    assert swept(tmp_path, RECIPE).loaded([f"name={long!r}"]).config.name == long
