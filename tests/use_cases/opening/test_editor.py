"""An editor at a line of code: the file that is meant, and the command or URL, by values."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.values.run_homes import add_run, run_id
from torchdeck.cli.main import main
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.layout import RunLayout
from torchdeck.contract.refusal import Refusal
from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.runs.failures.code_place import CodePlace
from torchdeck.use_cases.opening.editor import (
    EditorCommand,
    EditorUrl,
    NoEditorError,
    custom,
    open_at,
)
from torchdeck.use_cases.opening.editor_choice import Editor, EditorKind
from torchdeck.use_cases.opening.programs import Programs
from torchdeck.use_cases.opening.source import SourcePlace, find_source

PLACE = SourcePlace("/home/ada/my code/a.py", 12, 3)
REMOTE = PLACE._replace(node="gpu1")


def programs(*installed: str, **environ: str) -> Programs:
    return Programs(environ, lambda name: f"/usr/bin/{name}" if name in installed else None)


def argv(place: SourcePlace, editor: Editor, has: Programs) -> tuple[str, ...]:
    found = open_at(place, editor, has)
    assert isinstance(found, EditorCommand)
    return found.argv


def test_vs_code_is_opened_by_its_url() -> None:
    found = open_at(PLACE, Editor(EditorKind.VSCODE), programs())
    assert found == EditorUrl("vscode://file/home/ada/my%20code/a.py:12:3")


def test_variants_of_vs_code_are_opened_by_their_own_program_or_scheme() -> None:
    """vscode:// belongs to VS Code alone, which comes first."""
    at = f"{PLACE.path}:12:3"
    assert argv(PLACE, Editor(), programs("codium")) == ("/usr/bin/codium", "--goto", at)
    assert argv(PLACE, Editor(EditorKind.VSCODE), programs("code-insiders"))[0] == "/usr/bin/code-insiders"
    entry = NodeEntry(address="gpu.lab")
    for installed, scheme in ((("codium",), "vscodium"), (("code", "codium"), "vscode"), ((), "vscode")):
        found = open_at(REMOTE, Editor(), programs(*installed), entry)
        assert isinstance(found, EditorUrl)
        assert found.url.startswith(f"{scheme}://vscode-remote/ssh-remote+gpu.lab/")


def test_jetbrains_by_its_command() -> None:
    has = programs("charm", "idea")
    expected = ("/usr/bin/charm", "--line", "12", "--column", "3", PLACE.path)
    assert argv(PLACE, Editor(EditorKind.JETBRAINS), has) == expected
    with pytest.raises(NoEditorError, match="no command of a JetBrains editor"):
        open_at(PLACE, Editor(EditorKind.JETBRAINS), programs())


@pytest.mark.parametrize(
    ("visual", "expected", "in_terminal"),
    [
        ("vim", ("vim", "+12", PLACE.path), True),
        ("emacs -nw", ("emacs", "-nw", "+12", PLACE.path), True),
        ("emacs", ("emacs", "+12", PLACE.path), False),
        ("code -n", ("code", "-n", "--goto", f"{PLACE.path}:12:3"), False),
        ("/opt/hx", ("/opt/hx", f"{PLACE.path}:12"), True),
        ("kate", ("kate", "--line", "12", PLACE.path), False),
        ("gedit", ("gedit", "+12", PLACE.path), False),
    ],
)
def test_the_editor_in_visual(visual: str, expected: tuple[str, ...], in_terminal: bool) -> None:
    found = open_at(PLACE, Editor(EditorKind.VISUAL), programs(VISUAL=visual))
    assert found == EditorCommand(expected, in_terminal)


def test_the_first_one_found() -> None:
    assert open_at(PLACE, Editor(), programs("code", "charm", EDITOR="vim")) == open_at(
        PLACE, Editor(EditorKind.VSCODE), programs()
    )
    assert argv(PLACE, Editor(), programs("charm"))[0] == "/usr/bin/charm"
    assert argv(PLACE, Editor(), programs("code", VISUAL="kate"))[0] == "kate"
    assert argv(PLACE, Editor(), programs(EDITOR="nano"))[0] == "nano"
    with pytest.raises(NoEditorError, match="no editor is known"):
        open_at(PLACE, Editor(), programs())
    with pytest.raises(NoEditorError, match="VISUAL is no command"):
        open_at(PLACE, Editor(), programs(VISUAL="vim '"))


def test_a_custom_command_or_url() -> None:
    assert custom(PLACE, "subl {file}:{line}:{column}") == EditorCommand(("subl", f"{PLACE.path}:12:3"))
    assert custom(PLACE, "ed --at {line}") == EditorCommand(("ed", "--at", "12", PLACE.path))
    assert custom(PLACE, "cursor://file{file}:{line}") == EditorUrl(
        "cursor://file/home/ada/my%20code/a.py:12"
    )
    for command in ("", "ed 'x"):
        with pytest.raises(NoEditorError):
            custom(PLACE, command)


@given(st.text(min_size=1, max_size=40), st.sampled_from(["ed {line} {file}", "ed", "x://{file}:{line}"]))
def test_a_hostile_path_is_one_argument_or_a_quoted_part(name: str, command: str) -> None:
    place = SourcePlace(f"/{name}", 7)
    found = custom(place, command)
    if isinstance(found, EditorUrl):
        assert not set(found.url.removeprefix("x://")) - set(
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~/%:"
        )
    else:
        assert found.argv.count(place.path) == 1
        assert len(found.argv) == (3 if "{line}" in command else 2)


def test_a_file_of_a_node_is_opened_by_remote_ssh() -> None:
    entry = NodeEntry(address="gpu.lab", user="ada", port=2222)
    for kind in (EditorKind.AUTO, EditorKind.VSCODE):
        found = open_at(REMOTE, Editor(kind), programs(VISUAL="vim"), entry)
        assert found == EditorUrl(
            "vscode://vscode-remote/ssh-remote+ada@gpu.lab:2222/home/ada/my%20code/a.py:12:3"
        )
    plain = open_at(REMOTE._replace(column=None), Editor(), programs(), NodeEntry(address="gpu"))
    assert plain == EditorUrl("vscode://vscode-remote/ssh-remote+gpu/home/ada/my%20code/a.py:12")
    for editor, known, why in (
        (Editor(EditorKind.VISUAL), entry, "only VS Code"),
        (Editor(), None, "not in the node inventory"),
        (Editor(), NodeEntry(address="gpu", jump=["gate"]), "jump hosts"),
    ):
        with pytest.raises(NoEditorError, match=why):
            open_at(REMOTE, editor, programs(), known)


# the file that is meant


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "train.py").write_text("x\n")
    return folder


def run_of(home: Path, code: Path, *nodes: str) -> RunLayout:
    layout = add_run(home, 1, code_folder=str(code))
    placed = [{"name": name, "nproc": 2, "working_dir": str(code)} for name in nodes]
    layout.plan.write_text(json.dumps({"nodes": placed}))
    return layout


def test_the_run_s_copy_is_the_user_s_own_file(tmp_path: Path, code: Path) -> None:
    layout = run_of(tmp_path / "home", code, "gpu1", "gpu2")
    copy = f"/data/torchdeck/runs/{run_id(1)}/code/train.py"
    assert find_source(layout, CodePlace(copy, 4, 2), rank=3) == SourcePlace(str(code / "train.py"), 4, 2)
    gone = copy.replace("train", "gone")
    assert find_source(layout, CodePlace(gone, 4), rank=3) == SourcePlace(gone, 4, None, "gpu2")


def test_relative_paths_are_of_the_node_s_folder(tmp_path: Path, code: Path) -> None:
    layout = run_of(tmp_path / "home", code, LOCALHOST)
    assert find_source(layout, CodePlace("./x/../train.py", 4)).path == str(code / "train.py")
    with pytest.raises(Refusal, match="is not a file on this machine"):
        find_source(layout, CodePlace("gone.py", 4))


@pytest.mark.parametrize(
    "name", ["", "a\nb.py", "\x1b[2J.py", "/" + "a" * 5000, "/x.code-workspace", "a\u202eb"]
)
def test_what_is_no_path_is_refused(tmp_path: Path, code: Path, name: str) -> None:
    layout = run_of(tmp_path / "home", code, "gpu1")
    with pytest.raises(Refusal):
        find_source(layout, CodePlace(name, 4))


def test_a_path_of_a_node_begins_with_one_slash(tmp_path: Path, code: Path) -> None:
    layout = run_of(tmp_path / "home", code, "gpu1")
    found = find_source(layout, CodePlace("//evil/../etc/passwd", 4))
    assert (found.path, found.node) == ("/etc/passwd", "gpu1")


def test_the_command_prints_what_it_would_start(
    torchdeck_home: Path, code: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_of(torchdeck_home, code, LOCALHOST)
    assert main(["runs", "open", run_id(1), "train.py:3", "--editor", "vscode", "--print"]) == 0
    assert capsys.readouterr().out == f"vscode://file{code}/train.py:3:1\n"
    assert main(["runs", "open", run_id(1), "train.py:3", "--editor", "ed {line}", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"argv": ["ed", "3", f"{code}/train.py"]}
    assert main(["runs", "open", run_id(1), "nothing"]) == 2
    assert main(["runs", "open", run_id(1)]) == 2
    assert "names no line of your code" in capsys.readouterr().err
