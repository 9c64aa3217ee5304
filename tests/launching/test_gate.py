"""Code that a look at a run file would run: of strangers none, and of one's own without a question."""

from __future__ import annotations

import itertools
import sys
import threading
from pathlib import Path

import pytest

from support.values.run_files import load, write
from torchdeck.config.schema import RunConfig
from torchdeck.contract.inventory import InterpreterFacts
from torchdeck.launching.checked_plan import checked_plan
from torchdeck.launching.facts.fact_sources import FactSources
from torchdeck.launching.gate import Gate, NotTrustedError
from torchdeck.launching.launcher import LaunchRecord, create_run
from torchdeck.nodes.interpreter import probe_interpreter
from torchdeck.trust.trust_list import TrustError, TrustList

RECIPE = '[run]\nrecipe = "model.py"\n[training]\nsteps = 1\n'


def untrusted(config: RunConfig, home: Path, files: tuple[Path, ...] = ()) -> Path | None:
    """The first folder that is asked about."""
    return next((held.folder for held in Gate(home).held(config, files)), None)


def untrusted_interpreter(path: str | None, home: Path) -> Path | None:
    """The folder of a Python that is asked about."""
    held = Gate(home).held_interpreter(path)
    return None if held is None else held.folder


def trust(folder: Path, home: Path) -> None:
    TrustList(home).add(folder)


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o700)
    return path


def test_recipe_and_interpreter_are_asked_about_one_after_the_other(home: Path, tmp_path: Path) -> None:
    code = tmp_path / "code"
    write(code, "", "model.py")
    python = executable(tmp_path / "tools" / "python")
    config = load(code, RECIPE.replace("[training]", f'interpreter = "{python}"\n[training]'))
    home.mkdir(exist_ok=True)
    assert untrusted(config, home) == code
    trust(code, home)
    assert untrusted(config, home) == python.parent
    trust(tmp_path, home)
    assert untrusted(config, home) is None


def test_built_in_recipes_and_scripts_are_not_asked_about(home: Path, tmp_path: Path) -> None:
    """Of a script nothing runs before the launch."""
    write(tmp_path, "", "t.py")
    for text in (RECIPE.replace("model.py", "byte-gpt"), '[run]\nscript = "t.py"\n'):
        assert untrusted(load(tmp_path, text), home) is None


def test_a_project_from_which_uv_makes_an_environment_is_asked_about(home: Path, tmp_path: Path) -> None:
    """Its packages may be built by code that it names; what others can write is never built."""
    work = tmp_path / "work"
    write(work, "", "t.py")
    config = load(work, '[run]\nscript = "t.py"\nenvironment = "uv"\n')
    home.mkdir(exist_ok=True)
    assert untrusted(config, home) == work
    trust(work, home)
    assert untrusted(config, home) is None
    work.chmod(0o777)
    (held,) = Gate(home).held(config)
    assert not held.can_be_trusted


def test_a_strange_file_is_asked_about_that_names_a_trusted_recipe(home: Path, tmp_path: Path) -> None:
    """Where it lets the recipe start, as Python imports from there; and for variables its own folder."""
    code, strange = tmp_path / "code", tmp_path / "strange"
    write(code, "", "model.py")
    home.mkdir(exist_ok=True)
    trust(code, home)
    text = RECIPE.replace("model.py", str(code / "model.py"))

    def asked_about(more: str, *files: Path) -> Path | None:
        return untrusted(load(strange, text.replace("[training]", f"{more}\n[training]")), home, files)

    here = strange / "run.toml"
    assert asked_about("", here) == strange
    elsewhere = f'working_dir = "{code}"'
    assert asked_about(elsewhere, here) is None
    assert asked_about(f'{elsewhere}\nenv = {{A = "1"}}', here) == strange
    assert asked_about(f'{elsewhere}\nenv = {{A = "1"}}', code / "base.toml", here) == strange
    assert asked_about(f'{elsewhere}\nenv = {{A = "1"}}', code / "run.toml") is None
    assert asked_about(f'working_dir = "{tmp_path / "none"}"', here) is None
    (code / "link").symlink_to(strange)
    assert asked_about(f'working_dir = "{code / "link"}"', here) == strange
    trust(strange, home)
    assert asked_about('env = {A = "1"}', here) is None


def test_of_a_virtual_environment_all_of_it_is_meant(home: Path, tmp_path: Path) -> None:
    python = executable(tmp_path / "venv" / "bin" / "python")
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    assert untrusted_interpreter(str(python), home) == tmp_path / "venv"


def test_a_python_that_the_user_could_start_by_name_is_no_stranger(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = executable(tmp_path / "bin" / "python9")
    assert untrusted_interpreter(str(python), home) == python.parent
    monkeypatch.setenv("PATH", str(python.parent))
    assert untrusted_interpreter(str(python), home) is None
    for ours in (None, "python3", sys.executable, str(tmp_path / "none")):
        assert untrusted_interpreter(ours, home) is None


def test_what_runs_is_what_was_looked_at(home: Path, tmp_path: Path) -> None:
    """A link that leads elsewhere after the look changes nothing."""
    good, evil, link = tmp_path / "good", tmp_path / "evil", tmp_path / "link"
    for folder in (good, evil):
        write(folder, "", "model.py")
        executable(folder / "python")
    link.symlink_to(good)
    config = load(tmp_path, RECIPE.replace("model.py", str(link / "model.py")))
    run = config.run.model_copy(update={"interpreter": str(link / "python"), "working_dir": str(link)})
    config = config.model_copy(update={"run": run})
    home.mkdir(exist_ok=True)
    trust(good, home)
    admitted = Gate(home).admitted(config).run
    link.unlink()
    link.symlink_to(evil)
    assert admitted.recipe == str(good / "model.py")
    assert (admitted.interpreter, admitted.working_dir) == (str(good / "python"), str(good))
    with pytest.raises(NotTrustedError, match=f"{evil} is not trusted yet"):
        Gate(home).admitted(config)


@pytest.mark.processes
def test_the_python_that_is_asked_is_the_one_that_was_looked_at(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link on the way to it that leads elsewhere after the look, or in the middle of it, starts nothing."""
    good, evil, link = tmp_path / "good", tmp_path / "evil", tmp_path / "link"
    for folder in (good, evil):
        executable(folder / "python").write_text(f"#!/bin/sh\ntouch {folder / 'ran'}\n")
    home.mkdir(exist_ok=True)
    trust(good, home)
    ask = probe_interpreter

    def flipped(path: str | None = None, *, deepspeed: bool = False) -> InterpreterFacts:
        link.unlink()
        link.symlink_to(evil)
        return ask(path, deepspeed=deepspeed)

    monkeypatch.setattr("torchdeck.launching.facts.fact_sources.probe_interpreter", flipped)
    link.symlink_to(good)
    FactSources(home).interpreter(str(link / "python"), deepspeed=False)
    assert (good / "ran").exists()
    assert not (evil / "ran").exists()
    assert FactSources(home).interpreter(str(link / "python"), deepspeed=False).python == ""
    assert not (evil / "ran").exists()


@pytest.mark.processes
def test_a_link_that_flips_all_the_time_starts_nothing_that_is_not_trusted(
    home: Path, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """Whenever it flips: before, between or after the looks at it."""
    good, evil, link, other = (tmp_path / name for name in ("good", "evil", "link", "other"))
    for folder in (good, evil):
        executable(folder / "python").write_text(f"#!/bin/sh\ntouch {folder / 'ran'}\n")
    home.mkdir(exist_ok=True)
    trust(good, home)
    link.symlink_to(good)
    over = threading.Event()

    def flip() -> None:
        for target in itertools.cycle((evil, good)):
            if over.is_set():
                return
            other.symlink_to(target)
            other.replace(link)

    flipping = threading.Thread(target=flip)
    flipping.start()
    try:
        for _ in range(3000 if pytestconfig.getoption("--soak") else 100):
            FactSources(home).interpreter(str(link / "python"), deepspeed=False)
    finally:
        over.set()
        flipping.join()
    assert (good / "ran").exists()
    assert not (evil / "ran").exists()


def test_a_recipe_that_is_a_link_out_of_a_trusted_folder_is_asked_about(home: Path, tmp_path: Path) -> None:
    code, other = tmp_path / "code", tmp_path / "other"
    write(other, "", "real.py")
    code.mkdir()
    (code / "model.py").symlink_to(other / "real.py")
    home.mkdir(exist_ok=True)
    trust(code, home)
    assert untrusted(load(code, RECIPE), home) == other


def test_what_others_can_write_never_passes(home: Path, tmp_path: Path) -> None:
    """Be it trusted or not: the folder, the recipe, or a file that it may import."""
    code = tmp_path / "code"
    write(code, "", "model.py")
    write(code / "package", "", "part.py")
    config = load(code, RECIPE)
    home.mkdir(exist_ok=True)
    trust(code, home)
    gate = Gate(home)
    for place in (code, code / "model.py", code / "package", code / "package" / "part.py"):
        mode = place.stat().st_mode
        place.chmod(mode | 0o002)
        (held,) = gate.held(config)
        assert not held.can_be_trusted
        assert f"cannot be trusted: everyone can write {place}" in held.what
        assert held.fix == f"`chmod o-w {place}`"
        with pytest.raises(TrustError, match="everyone can write"):
            gate.trust(config)
        place.chmod(mode)
    assert gate.held(config) == ()


def test_a_changed_folder_is_asked_about_again_with_the_reason(home: Path, tmp_path: Path) -> None:
    code = tmp_path / "code"
    write(code, "", "model.py")
    config = load(code, RECIPE)
    home.mkdir(exist_ok=True)
    gate = Gate(home)
    gate.trust(config)
    assert gate.held(config) == ()
    code.chmod(0o700)
    (held,) = gate.held(config)
    assert held.can_be_trusted
    assert "is not trusted yet; its mode has changed (755, now 700)" in held.what
    gate.trust(config)
    assert gate.held(config) == ()


def test_a_python_by_name_is_asked_about_where_path_leads_to_the_working_directory(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry of PATH that is relative means another folder in each working directory."""
    python = executable(tmp_path / "python9")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", ".")
    assert untrusted_interpreter("python9", home) == python.parent


def test_a_launch_copies_the_code_that_was_looked_at(home: Path, tmp_path: Path) -> None:
    """A link on the way to the recipe that leads elsewhere by then changes nothing."""
    pytest.importorskip("torch")
    good, evil, link = tmp_path / "good", tmp_path / "evil", tmp_path / "link"
    write(good, "# good\n", "model.py")
    write(evil, "# evil\n", "model.py")
    link.symlink_to(good)
    home.mkdir(exist_ok=True, mode=0o700)
    trust(good, home)
    text = f'{RECIPE}[limits]\nmemory = "off"\n[distributed]\nnproc = 1\ndevices = "cpu"\n'
    text = text.replace('"model.py"', f'"{link / "model.py"}"\nworking_dir = "{link}"')
    plan, _ = checked_plan(load(tmp_path, text), home)
    link.unlink()
    link.symlink_to(evil)
    layout = create_run(plan, LaunchRecord(text), home)
    (copied,) = layout.root.rglob("model.py")
    assert copied.read_text() == "# good\n"


def test_packages_of_a_virtual_environment_are_looked_at(home: Path, tmp_path: Path) -> None:
    """What lies in site-packages runs at every start of the Python, as .pth files do."""
    python = executable(tmp_path / "venv" / "bin" / "python")
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    site = tmp_path / "venv" / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    trust(tmp_path / "venv", home)
    assert untrusted_interpreter(str(python), home) is None
    site.chmod(0o777)
    held = Gate(home).held_interpreter(str(python))
    assert held is not None
    assert not held.can_be_trusted
    assert "site-packages" in held.what


def test_an_interpreter_that_is_not_trusted_is_named_with_what_to_do(home: Path, tmp_path: Path) -> None:
    """The Python itself, the folder that would be trusted, and the command."""
    python = executable(tmp_path / "venv" / "bin" / "python")
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    held = Gate(home).held_interpreter(str(python))
    assert held is not None
    assert held.what.startswith(f"the run's Python, {python}, is started to look at its packages")
    assert held.what.endswith(f"its folder {tmp_path / 'venv'} is not trusted yet")
    assert held.fix.startswith("if you made this environment, or trust who did, start again with --trust")
    assert f"`torchdeck trust add {tmp_path / 'venv'}`" in held.fix
