"""Reading run files: extends, --set, paths, and every problem at its place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.values.run_files import MINIMAL, load, only_problem, problems, write
from torchdeck.config.keys import all_keys
from torchdeck.config.loader import config_from_dict, load_config
from torchdeck.config.problems import ConfigError
from torchdeck.config.schema import RunConfig


def test_a_minimal_file_is_complete_when_read(tmp_path: Path) -> None:
    """Name, working directory and all options of the recipe are there."""
    config = load(tmp_path, MINIMAL)
    assert config.name == "run"
    assert config.run.working_dir == str(tmp_path)
    assert config.model == {
        "layers": 4, "heads": 4, "width": 128, "context": 128, "vocabulary": 256, "dropout": 0.0,
        "init_from": None, "init_names": {}, "init_new": [],
    }  # fmt: skip
    assert config.data == {
        "source": "stdlib", "tokens": None, "token_dtype": "uint16", "heldout": 0.05,
        "max_bytes": None, "workers": 0,
    }  # fmt: skip


def test_the_name_is_the_files(tmp_path: Path) -> None:
    """Without a name, the run is named after its file."""
    assert load_config(write(tmp_path, MINIMAL, "first try.toml")).config.name == "first try"


def test_extends_merges_tables_and_replaces_values(tmp_path: Path) -> None:
    """The extending file's keys win, the base's others stay; lists are replaced."""
    write(tmp_path, MINIMAL + "lr = 0.5\nbetas = [0.1, 0.2]\n[run.env]\nA = '1'\nB = '1'\n", "base.toml")
    loaded = load_config(
        write(tmp_path, "extends = 'base.toml'\n[training]\nbetas = [0.3, 0.4]\n[run.env]\nB = '2'\n")
    )
    assert loaded.config.training.lr == 0.5
    assert loaded.config.training.betas == (0.3, 0.4)
    assert loaded.config.run.env == {"A": "1", "B": "2"}
    assert [path.name for path in loaded.files] == ["base.toml", "run.toml"]
    assert "extends" not in loaded.written


def test_extends_is_relative_to_each_file(tmp_path: Path) -> None:
    """A chain through two folders: each extends and each path is seen from its own file."""
    write(tmp_path, MINIMAL + "[data]\nsource = 'text'\n", "a/base.toml")
    write(tmp_path, "extends = '../a/base.toml'\n[checkpoint]\ndirectory = 'ck'\n", "b/middle.toml")
    config = load(tmp_path, "extends = 'b/middle.toml'\n[run]\ninterpreter = 'venv/bin/python'\n")
    assert config.data["source"] == str(tmp_path / "a" / "text")
    assert config.checkpoint.directory == str(tmp_path / "b" / "ck")
    assert config.run.interpreter == str(tmp_path / "venv/bin/python")
    assert config.run.working_dir == str(tmp_path)


def test_words_are_no_paths(tmp_path: Path) -> None:
    """A built-in recipe, "auto", "stdlib" and a command on PATH stay as they are."""
    config = load(tmp_path, MINIMAL, "run.interpreter=python3")
    assert (config.run.recipe, config.checkpoint.resume, config.run.interpreter) == (
        "byte-gpt",
        "auto",
        "python3",
    )


def test_home_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path may begin with ~."""
    monkeypatch.setenv("HOME", "/home/somebody")
    assert load(tmp_path, MINIMAL, "checkpoint.directory=~/ck").checkpoint.directory == "/home/somebody/ck"


def test_a_free_recipe_keeps_its_tables(tmp_path: Path) -> None:
    """[model] and [data] of a recipe file pass through unchanged."""
    config = load(
        tmp_path, "[run]\nrecipe = 'my.py'\n[training]\nsteps = 1\n[model.deep]\nx = [1, {y = 'z'}]\n"
    )
    assert config.model == {"deep": {"x": [1, {"y": "z"}]}}
    assert config.run.recipe == str(tmp_path / "my.py")


def test_a_circle_is_named(tmp_path: Path) -> None:
    """Files that extend each other are refused at the line that closes the circle."""
    write(tmp_path, "# one\nextends = 'run.toml'\n", "base.toml")
    problem = only_problem(tmp_path, "extends = 'base.toml'\n")
    assert (problem.path, problem.line, Path(problem.file).name) == ("extends", 2, "base.toml")
    assert "circle" in problem.wrong


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ("'no.toml'", "no such file"),
        ("'.'", "a folder, not a regular file"),
        ("'/proc/self/status'", "made up by the kernel"),
        ("'/dev/zero'", "a character device"),
        ("3", "whole number"),
        ("''", "empty"),
        ("'\\u0000'", ""),
    ],
)
def test_a_base_that_cannot_be_read(tmp_path: Path, value: str, wrong: str) -> None:
    """What extends names is missing, no file or no text: a problem at the line of extends."""
    problem = only_problem(tmp_path, f"\nextends = {value.replace(chr(39), chr(34))}\n")
    assert (problem.path, problem.line) == ("extends", 2)
    assert wrong in problem.wrong


def test_a_chain_without_end_is_refused(tmp_path: Path) -> None:
    """Files are read up to a number that no one needs."""
    for number in range(70):
        write(tmp_path, f"extends = '{number + 1}.toml'\n", f"{number}.toml")
    with pytest.raises(ConfigError, match="more than 64 files"):
        load_config(tmp_path / "0.toml")


def test_a_missing_file(tmp_path: Path) -> None:
    """A run file that is not there is one problem, with the command that writes one."""
    with pytest.raises(ConfigError, match=r"no such file.*torchdeck init"):
        load_config(tmp_path / "run.toml")


def test_files_that_are_no_run_files(tmp_path: Path) -> None:
    """A pipe, a giant and bytes that are not UTF-8 are refused without being waited for or swallowed."""
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "long.toml").write_bytes(b"#" * (1 << 21))
    (tmp_path / "bytes.toml").write_bytes(b"name = 'x'\nx = '\xff'\n")
    for name, wrong in (("pipe", "FIFO"), ("long", "too large"), ("bytes", "bytes.toml:2: byte 16")):
        with pytest.raises(ConfigError, match=wrong):
            load_config(tmp_path / f"{name}.toml")


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("[run]\nrecipe = byte-gpt\n", 2, 10),
        ("[run\n", 1, 5),
        ("a = 1\na = 2\n", 2, 6),
        ('x = """\n\n', 3, 1),
    ],
)
def test_syntax_errors_have_line_and_column(tmp_path: Path, text: str, line: int, column: int) -> None:
    """What is no TOML says where."""
    problem = only_problem(tmp_path, text)
    assert problem.line == line
    assert f"at column {column}" in problem.wrong


def test_nesting_without_end(tmp_path: Path) -> None:
    """A line of brackets or of dots is refused, and not followed down."""
    for text in (
        "a = " + "[" * 5000 + "]" * 5000,
        ".".join("a" * 3000) + " = 1",
        "[" + ".".join("a" * 90) + "]",
        ".".join("a" * 200_000) + " = 1",  # all memory and minutes, if tomllib read it
        'a = {"b" . ' + " . ".join("c" * 200_000) + " = 1}",
    ):
        assert "nested too deeply" in only_problem(tmp_path, text).wrong


def test_problems_come_all_at_once_each_at_its_place(tmp_path: Path) -> None:
    """Base file, run file and command line: every problem, with file and line, in one go."""
    write(tmp_path, "[run]\nrecipe = 'byte-gpt'\n\n[training]\nsteps = 0\n", "base.toml")
    found = problems(
        tmp_path,
        "extends = 'base.toml'\n[model]\nheads = 3\n[distributed]\nstrategy = 'dpd'\n"
        "[telemetry]\npatterns = [\n'x',\n3]\n",
        "training.lr=fast",
        "nonsense",
    )
    places = {problem.path: (Path(problem.file).name, problem.line) for problem in found}
    assert places == {
        "nonsense": ("--set", None),
        "training.lr": ("--set", None),
        "training.steps": ("base.toml", 5),
        "model.heads": ("run.toml", 3),
        "distributed.strategy": ("run.toml", 5),
        "telemetry.patterns[1]": ("run.toml", 9),
    }
    assert '"ddp"' in next(problem.right for problem in found if problem.path == "distributed.strategy")


def test_a_later_layer_displaces_its_alternative(tmp_path: Path) -> None:
    """epochs given later takes the place of steps given before; so do script and recipe."""
    assert load(tmp_path, MINIMAL, "training.epochs=2").training.steps is None
    write(tmp_path, "[run]\nrecipe = 'byte-gpt'\n", "base.toml")
    assert load(tmp_path, "extends = 'base.toml'\n[run]\nscript = 'x.py'\n").run.recipe is None


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("training.lr=3e-4", "training.lr", 3e-4),
        (" training . lr = 1 ", "training.lr", 1.0),
        ("training.compile=true", "training.compile", True),
        ("training.optimizer=sgd", "training.optimizer", "sgd"),
        ('training.optimizer="sgd"', "training.optimizer", "sgd"),
        ("training.betas=[0.5, 0.6]", "training.betas", (0.5, 0.6)),
        ("name=2024", "name", "2024"),
        ("run.env.OMP_NUM_THREADS=4", "run.env", {"OMP_NUM_THREADS": "4"}),
        ('run.env={"A" = "b"}', "run.env", {"A": "b"}),
        ("limits.min_free_disk=2GB", "limits.min_free_disk", 2 * 10**9),
        ("distributed.devices=cpu", "distributed.devices", "cpu"),
        ("run.env.EMPTY=''", "run.env", {"EMPTY": ""}),
    ],
)
def test_overrides(tmp_path: Path, override: str, key: str, value: Any) -> None:
    """TOML's syntax or bare text; text where text is wanted."""
    got: Any = load(tmp_path, MINIMAL + "[distributed]\nnproc = 2\n", override)
    for part in key.split("."):
        got = getattr(got, part)
    assert got == value


def test_the_last_override_wins(tmp_path: Path) -> None:
    """--set is applied from left to right."""
    assert load(tmp_path, MINIMAL, "training.lr=1", "training.lr=2").training.lr == 2


@pytest.mark.parametrize(
    "override",
    [
        "",
        "=",
        "training.microbatch=",
        "run.env.A= ",
        "a b=1",
        "run.args=[--lr",
        "extends=x",
        "training.lr",
        '"a=1',
        "a..b=1",
    ],
)
def test_overrides_that_are_none(tmp_path: Path, override: str) -> None:
    """What is no KEY=VALUE is one problem of --set."""
    assert only_problem(tmp_path, MINIMAL, override).file == "--set"


def test_a_path_in_an_override_is_seen_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the shell that completed it saw it."""
    monkeypatch.chdir("/")
    assert load(tmp_path, MINIMAL, "checkpoint.directory=ck").checkpoint.directory == "/ck"


def test_a_config_from_a_dict(tmp_path: Path) -> None:
    """A table made by code is read like a file in base_dir; extends is for files."""
    config = config_from_dict({"run": {"script": "x.py"}}, tmp_path, name="mine/own")
    assert (config.name, config.run.script, config.run.working_dir) == (
        "mine-own",
        str(tmp_path / "x.py"),
        str(tmp_path),
    )
    with pytest.raises(ConfigError, match="only a file can extend"):
        config_from_dict({"extends": "x", "run": {"script": "x.py"}}, tmp_path)


def test_later_problems_can_be_placed(tmp_path: Path) -> None:
    """Who finds a problem afterwards gets file and line of the key, or of the table around it."""
    path = write(tmp_path, MINIMAL)
    locate = load_config(path, ["distributed.nproc=2"]).locate
    assert locate("training.steps") == (str(path), 5)
    assert locate("training.lr") == (str(path), 4)
    assert locate("distributed.nproc") == ("--set", None)
    assert locate("launch.queue") == (str(path), 1)


def read_or_refused(table: dict[str, Any], *overrides: str) -> RunConfig | ConfigError:
    """The config, or why there is none."""
    try:
        return config_from_dict(table, "/somewhere", overrides)
    except ConfigError as error:
        return error


KEYS = st.sampled_from([part for key in all_keys() for part in key]) | st.text(max_size=5)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.just(10**400)
    | st.floats()
    | st.text(max_size=10)
    | st.sampled_from(
        ["byte-gpt", "x.py", "auto", "ddp", "single", "sgd", "adamw", "fsdp", "cpu", "(?P<x>.)"]
    )
    | st.dates()
    | st.datetimes()
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4)
)
TABLES = st.fixed_dictionaries(
    {},
    optional={
        "run": st.fixed_dictionaries(
            {},
            optional={
                "recipe": st.just("byte-gpt") | st.just("x.py") | VALUES,
                "script": VALUES,
                "env": VALUES,
            },
        ),
        **{
            section: st.dictionaries(
                st.sampled_from([k[1] for k in all_keys() if k[0] == section and len(k) == 2]), VALUES
            )
            for section in (
                "model",
                "data",
                "training",
                "distributed",
                "checkpoint",
                "telemetry",
                "limits",
                "launch",
                "alerts",
            )
        },
        "name": VALUES,
    },
)


@settings(deadline=None)
@given(TABLES | st.dictionaries(KEYS, VALUES, max_size=5))
def test_any_table_is_a_config_or_a_config_error(table: dict[str, Any]) -> None:
    """Whatever a table holds, it is read or refused with problems that say something."""
    read = read_or_refused(table)
    if isinstance(read, RunConfig):
        assert RunConfig.model_validate(read.model_dump()) == read
    else:
        assert read.problems
        assert all(problem.wrong and problem.right for problem in read.problems)


TOML_BITS = st.sampled_from(
    ["[", "]", "{", "}", "=", ".", ",", "\n", "\r\n", "#", '"', "'", '"""', "'''", "\\", "u0000", " ",
     "1", "-", "e", "inf", "nan", "1979-05-27", "run", "recipe", "byte-gpt", "training", "steps",
     "extends", "name", "true", "\0", "é"]
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(TOML_BITS, max_size=40).map("".join) | st.text())
@example("a = " + "9" * 5000)
@example("a = 2020-13-45")
@example("\ufeffname = 'x'")
def test_any_text_is_a_config_or_a_config_error(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """Whatever a file holds, nothing but ConfigError comes out."""
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert caught.value.problems


@settings(deadline=None)
@given(
    st.text(max_size=12)
    | st.builds("{}={}".format, st.sampled_from([k.name for k in all_keys().values()]), st.text(max_size=9))
)
def test_any_override_is_taken_or_refused(text: str) -> None:
    """Whatever --set gets, nothing but ConfigError comes out."""
    read = read_or_refused({"run": {"recipe": "byte-gpt"}, "training": {"steps": 1}}, text)
    assert isinstance(read, RunConfig) or read.problems
