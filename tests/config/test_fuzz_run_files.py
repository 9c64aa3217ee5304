"""Run files of strangers: a config, or a ConfigError with file and line, whatever is in them."""

import json
from pathlib import Path

from hypothesis import strategies as st

from support.fuzz import hostile
from support.fuzz.fuzzing import read_all
from support.fuzz.refusals import refused
from torchdeck.config.loader import load_config
from torchdeck.config.problems import ConfigError
from torchdeck.nodes.inventory.file import read_inventory

RAW = (
    *("1", "-1", "1e308", "1e999", "nan", "-inf", "9" * 400, "9" * 5000, "0x" + "f" * 5000, "0b" + "1" * 70),
    *("true", '""', '"x"', "'''\n'''", '"\\u0000"', '"\\u001b]52;c;\\u0007\\u202e"', "1979-05-27T07:32:00Z"),
    *("[]", "[[]]", "{}", "{a = {}}", "[" * 70 + "]" * 70, "[" * 5000, "{a=" * 5000, "07:32:00", "1_000"),
    *('"/dev/zero"', '"/proc/self/status"', '"~nobody-of-that-name/x"', '"' + "a" * 70_000 + '"', '"."'),
    "{" + ".".join("a" * 20_000) + " = 1}",
)
KEYS = st.sampled_from(
    [
        *("extends", "name", "run", "run.script", "run.recipe", "run.args", "run.env", "run.secrets"),
        *("training.steps", "training.lr", "training.batch_plan", "distributed.nodes", "distributed.nproc"),
        *("cluster.nodes", "cluster", "estimate.config", "estimate.layers", "model.layers", "data.source"),
        *("limits.memory", "checkpoint.every", "nodes.a.address", "nodes.a", "groups.g", "version"),
        *('"a b"', "'\u202e'", ".".join("a" * 70), "a" * 5000, 'run."\\u0000"'),
    ]
)
VALUES = st.sampled_from(RAW) | hostile.values().map(lambda value: json.dumps(value, ensure_ascii=False))
LINES = (
    st.builds("{} = {}".format, KEYS, VALUES)
    | st.builds("[{}]".format, KEYS)
    | st.builds("[[{}]]".format, KEYS)
)
SOUND = '[run]\nrecipe = "byte-gpt"\n[model]\nlayers = 2\n[training]\nsteps = 10\nlr = 3e-4 # a comment\n'
FILES = st.lists(LINES | st.sampled_from(SOUND.splitlines()), max_size=8).map("\n".join) | st.just(SOUND)
TOML = FILES.map(lambda text: text.encode("utf-8", "surrogatepass")).flatmap(
    lambda content: st.just(content) | hostile.damaged(content)
)


def read_run_file(content: bytes, place: Path) -> None:
    path = place / "run.toml"
    path.write_bytes(content)
    refused(lambda: load_config(path), ConfigError)


def read_node_inventory(content: bytes, place: Path) -> None:
    path = place / "nodes.toml"
    path.write_bytes(content)
    refused(lambda: read_inventory(path), ConfigError)


def test_any_run_file() -> None:
    read_all(read_run_file, TOML)


def test_any_node_book() -> None:
    read_all(read_node_inventory, TOML)
