"""A plan as a batch file, read back by the rules that cmd.exe and the C runtime document.

There is no cmd.exe here: these rules in a few lines stand in for it.
"""

import dataclasses
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.machines import byte_gpt, config, node, plan
from torchdeck.plan.export_bat import MAX_LINE, ExportError, export_bat
from torchdeck.plan.launch_plan import CodeTree

PRINTABLE = st.text(
    st.sampled_from("\\\"'%^&|<>()! a")
    | st.characters(min_codepoint=32, codec="utf-8", exclude_categories=["Cc"])
)


def cmd_line(line: str, variables: dict[str, str]) -> str:
    """What cmd.exe makes of a line of a batch file: percent signs first, then carets outside quotes."""
    expanded = re.sub(r"%%|%(\w+)%", lambda match: "%" if match[0] == "%%" else variables[match[1]], line)
    out, quoted, position = "", False, 0
    while position < len(expanded):
        character = expanded[position]
        if character == "^" and not quoted:
            position += 1
            out += expanded[position]
        else:
            assert quoted or character not in "&|<>()", f"{character} would be an operator in {line}"
            quoted ^= character == '"'
            out += character
        position += 1
    return out


def runtime_words(text: str) -> list[str]:
    """What the Microsoft C runtime makes of a command line: quotes, and backslashes before quotes."""
    words, current, quoted, begun, position = [], "", False, False, 0
    while position < len(text):
        slashes = re.match(r"\\*", text[position:])
        count = len(slashes[0]) if slashes is not None else 0
        position += count
        following = text[position : position + 1]
        if following == '"':
            current += "\\" * (count // 2)
            begun = True
            if count % 2:
                current += '"'
            else:
                quoted = not quoted
        else:
            current += "\\" * count
            begun = begun or count > 0
            if following in (" ", "\t") and not quoted:
                if begun:
                    words.append(current)
                current, begun = "", False
            elif following:
                current, begun = current + following, True
        position += 1
    return [*words, current] if begun else words


def lines_of(text: str) -> list[str]:
    assert text.endswith("\r\n")
    return text[:-2].split("\r\n")


VARIABLES = {
    "PYTHON": "/usr/bin/python3",
    "PYTHON_WORD": '"/usr/bin/python3"',
    "PORT": "7",
    "RUN_ID": "id",
    "RUN_DIR": "C:/runs/my run",
    "ATTEMPT": "2",
    "RESUME": "",
}
SLOTS = {
    "run_id": "id",
    "run_dir": "C:/runs/my run",
    "attempt": "2",
    "port": "7",
    "resume": "",
    "shipped": "",
}


@settings(deadline=None)
@given(st.lists(PRINTABLE), PRINTABLE)
def test_arguments_and_variables_arrive(args: list[str], value: str) -> None:
    """Quoted for the C runtime and escaped for cmd.exe, every printable text arrives unchanged."""
    made = plan(config({"script": "/x y.py", "args": args, "env": {"MY_VALUE": value}}))
    lines = lines_of(export_bat(made, made.nodes[0]))
    filled = made.filled(SLOTS).nodes[0]
    assert runtime_words(cmd_line(lines[-2], VARIABLES)) == [
        filled.torchrun[0],
        *("-m", "torch.distributed.run"),
        *filled.torchrun[2:],
        *filled.command,
    ]
    (line,) = [line for line in lines if line.startswith('set ^"MY_VALUE=')]
    assert cmd_line(line, VARIABLES) == f'set "MY_VALUE={value}"'


def test_the_recipes_settings_are_json() -> None:
    """JSON is full of quotes; it arrives whole."""
    made = plan(byte_gpt())
    (line,) = [line for line in lines_of(export_bat(made, made.nodes[0])) if "TORCHDECK_RECIPE" in line]
    text = cmd_line(line, VARIABLES).removeprefix('set "TORCHDECK_RECIPE=').removesuffix('"')
    assert json.loads(text)["checkpoint"]["directory"] == "C:/runs/my run/checkpoints"


@pytest.mark.parametrize("argument", ["a\nb", "a\rb", "\x1a"])
def test_what_a_batch_file_cannot_say_is_refused(argument: str) -> None:
    """A line break in an argument has no spelling in a batch file."""
    made = plan(config({"script": "/x.py", "args": [argument]}))
    with pytest.raises(ExportError, match="--export sh"):
        export_bat(made, made.nodes[0])


def test_a_line_too_long_for_cmd_is_refused() -> None:
    """cmd.exe would cut it in silence."""
    made = plan(config({"script": "/x.py", "args": ["a" * MAX_LINE]}))
    with pytest.raises(ExportError, match=str(MAX_LINE)):
        export_bat(made, made.nodes[0])


def test_cpu_ranks_see_no_gpu() -> None:
    """cmd.exe cannot set a variable to nothing, so the GPUs are hidden by -1."""
    made = plan()
    assert 'set ^"CUDA_VISIBLE_DEVICES=-1^"' in lines_of(export_bat(made, made.nodes[0]))


def test_a_name_cannot_become_a_command() -> None:
    """The run's name stands in a comment, harmless."""
    made = plan(config(name="a & del *  %PATH%"))
    assert lines_of(export_bat(made, made.nodes[0]))[1] == "rem a   del    PATH : node 1 of 1."


def test_code_that_a_run_copies_to_its_nodes_is_said_by_a_variable() -> None:
    """Its default is the user's folder, byte for byte."""
    asked = config({"script": "/home/100%/x.py", "working_dir": "/home/100%"}, distributed={"nodes": ["n1"]})
    code = CodeTree({"x.py": "ab" * 32}, "/home/100%", 7)
    made = plan(asked, dataclasses.replace(node("n1", cores=1), remote=True), code=code)
    lines = lines_of(export_bat(made, made.nodes[0]))
    (default,) = [line for line in lines if line.startswith("if not defined CODE ")]
    assert cmd_line(default, {}) == 'if not defined CODE set "CODE=/home/100%"'
    (begin,) = [line for line in lines if line.startswith("cd /d ")]
    assert runtime_words(cmd_line(begin.partition(" || ")[0], {"CODE": "/else where"}))[2] == "/else where"
