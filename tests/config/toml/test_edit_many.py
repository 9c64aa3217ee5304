"""Changing one of many tables, [[cluster.nodes]], and what stands around them."""

import pytest

from torchdeck.config.toml.edit import EditError, remove_value, set_value

TEXT = """\
[run]
script = "a.py"

# the machines
[[cluster.nodes]]
name = "new[0-3]" # fast
gpus = 8

[[cluster.nodes]]
name = "old"
"""
INLINE = 'cluster.nodes = [{name = "a"}, {name = "b", gpus = 2}]\n[run]\nscript = "a.py"\n'


@pytest.mark.parametrize(
    ("path", "value", "old", "new"),
    [
        (("cluster", "nodes", 0, "gpus"), 4, "gpus = 8", "gpus = 4"),
        (("cluster", "nodes", 0, "name"), "x", '"new[0-3]" # fast', '"x" # fast'),
        (("cluster", "nodes", 0, "cores"), 9, "gpus = 8\n", "gpus = 8\ncores = 9\n"),
        (("cluster", "nodes", 1, "gpus"), 2, 'name = "old"\n', 'name = "old"\ngpus = 2\n'),
        (
            ("cluster", "inter_node"),
            "50GB/s",
            'name = "old"\n',
            'name = "old"\n\n[cluster]\ninter_node = "50GB/s"\n',
        ),
        (("run", "module"), "m", 'script = "a.py"\n', 'script = "a.py"\nmodule = "m"\n'),
    ],
)
def test_a_value_is_set(path: tuple[str | int, ...], value: object, old: str, new: str) -> None:
    """In the very table that the number names; the rest stays byte for byte."""
    assert TEXT.count(old) == 1
    assert set_value(TEXT, path, value) == TEXT.replace(old, new)


def test_tables_in_braces_are_changed_too() -> None:
    """A list of them on one line."""
    changed = set_value(INLINE, ("cluster", "nodes", 1, "gpus"), 3)
    assert changed == INLINE.replace("gpus = 2", "gpus = 3")
    added = set_value(INLINE, ("cluster", "nodes", 0, "gpus"), 3)
    assert added == INLINE.replace('{name = "a"}', '{name = "a", gpus = 3}')


def test_a_value_is_removed() -> None:
    """From its own table alone; what is not there is no fault."""
    assert remove_value(TEXT, ("cluster", "nodes", 0, "gpus")) == TEXT.replace("gpus = 8\n", "")
    assert remove_value(TEXT, ("cluster", "nodes", 1, "gpus")) == TEXT
    assert remove_value(TEXT, ("cluster", "nodes", 2, "gpus")) == TEXT


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        (("cluster", "nodes", 2, "gpus"), r"cluster\.nodes\[2\] is no table"),
        (("cluster", "nodes", "gpus"), r"cluster\.nodes is no table"),
        (("cluster", "nodes", 0), r"cluster\.nodes\[0\] is no key of a table"),
        (("run", 0, "x"), r"run\[0\] is no table"),
        (("cluster", "nodes"), "cannot be written"),
    ],
)
def test_what_cannot_be_set(path: tuple[str | int, ...], wrong: str) -> None:
    """A table that is not there, or all of them at once."""
    with pytest.raises(EditError, match=wrong):
        set_value(TEXT, path, 4)
