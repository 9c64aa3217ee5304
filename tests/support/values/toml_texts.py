"""TOML texts as people write them, comments, odd quotes and all, for property tests."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

SECTIONS = ("run", "training", "distributed", "distributed.ddp")
"""Tables of run files, so that keys of run files meet what is there already."""

BARE = st.from_regex(r"[a-z_-][a-z0-9_-]{0,5}", fullmatch=True)
COMMENTS = st.sampled_from(["", "", " # why", ' # [x] = "y', "\t#'''"])
GAPS = st.sampled_from(["", "", "\n", "# about what follows\n", "\n# a\n# b\n", "  \n"])
SCALARS = st.sampled_from(
    ["1", "-0.5e-3", "true", "inf", "nan", "1979-05-27", "1979-05-27 07:32:00Z", "07:32:00", "0xff",
     '"a # b"', '"\\" ]"', "'c:\\d'", '"""x\n"" y\n"""', "'''\nit's ] }'''", '"é\\u00e9"', '""', "''",
     '"""""x"""""']
)  # fmt: skip


def values() -> st.SearchStrategy[str]:
    """A value, lists and inline tables included."""

    def nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        lists = st.lists(inner, max_size=3).flatmap(
            lambda items: st.sampled_from([", ", ",\n  ", " ,# , ]\n"]).map(
                lambda comma: f"[{comma.join(items)}]"
            )
        )
        flat = st.dictionaries(BARE, inner.filter(lambda text: "\n" not in text), max_size=3)
        tables = flat.map(
            lambda pairs: "{" + ", ".join(f"{key} = {value}" for key, value in pairs.items()) + "}"
        )
        return lists | tables

    return st.recursive(SCALARS, nested, max_leaves=5)


@st.composite
def toml_documents(draw: st.DrawFn) -> str:
    """A valid document: root keys, then tables; keys may be dotted or quoted, tables repeated with [[ ]]."""
    text, used = draw(GAPS) + _entries(draw), set[str]()
    for name in draw(st.lists(BARE, max_size=3, unique=True)):
        table = draw(st.sampled_from([f"t{name}", *(section for section in SECTIONS if section not in used)]))
        used.add(table)
        if draw(st.booleans()):
            for _ in range(draw(st.integers(1, 2))):
                text += f"{draw(GAPS)}[[ {table} . many ]]{draw(COMMENTS)}\n{_entries(draw)}"
        else:
            text += f"{draw(GAPS)}[{table}]{draw(COMMENTS)}\n{_entries(draw)}"
    ending = draw(st.sampled_from(["", "\n", "# end"]))
    text += ending
    assume(_is_valid(text))  # keys and tables drawn apart may be one and the same
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


def _is_valid(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _entries(draw: Any) -> str:
    text = ""
    for name in draw(
        st.lists(BARE | st.sampled_from(["lr", "steps", "nproc", "ddp", "env"]), max_size=4, unique=True)
    ):
        key = draw(st.sampled_from([name, f'"{name}"', f"'{name}'", f"{name}.a", f'{name} . "b c".d']))
        indent = draw(st.sampled_from(["", "", "  "]))
        text += f"{draw(GAPS)}{indent}{key} = {draw(values())}{draw(COMMENTS)}\n"
    return text
