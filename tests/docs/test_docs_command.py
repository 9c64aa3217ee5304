"""`torchdeck docs` serves the installed pages to this machine only, until Ctrl-C."""

import urllib.error
import urllib.request
import webbrowser
from pathlib import Path

import pytest

from torchdeck.cli.main import main
from torchdeck.use_cases import docs


def fetched(address: str) -> str:
    """The body of the answer."""
    with urllib.request.urlopen(address, timeout=10) as answer:  # noqa: S310 - an address of this machine
        text: str = answer.read().decode()
    return text


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small site in the place of the installed one."""
    folder = tmp_path / "site"
    (folder / "trouble").mkdir(parents=True)
    (folder / "index.html").write_text("overview")
    (folder / "trouble/hangs.html").write_text("ranks that make no progress")
    (tmp_path / "secret.html").write_text("not part of it")
    monkeypatch.setattr(docs, "installed_site", lambda: folder)
    return folder


def test_the_page_that_was_asked_for_is_opened(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The browser gets the page; nothing outside the folder is served; Ctrl-C is a normal end."""
    read: list[str] = []

    def browse(address: str) -> bool:
        assert address.startswith("http://127.0.0.1:")
        assert address.endswith("/trouble/hangs.html#phases")
        read.append(fetched(address))
        with pytest.raises(urllib.error.HTTPError, match="404"):
            fetched(address.replace("trouble/hangs", "../secret"))
        raise KeyboardInterrupt

    monkeypatch.setattr(webbrowser, "open", browse)
    assert main(["docs", "hangs#phases"]) == 0
    assert read == ["ranks that make no progress"]
    assert "/trouble/hangs.html#phases" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wanted", "page"),
    [
        ("index", "index.html"),
        ("", "index.html"),
        ("trouble/hangs", "trouble/hangs.html"),
        ("docs/trouble/hangs.md#a", "trouble/hangs.html#a"),
        ("hangs", "trouble/hangs.html"),
        ("../secret", None),
        ("nothing", None),
    ],
)
def test_pages_are_found_by_name(site: Path, wanted: str, page: str | None) -> None:
    """With or without folder, ending and anchor; only pages of the site."""
    assert docs.find_page(site, wanted) == page


def test_an_unknown_page_names_the_nearest(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is served."""
    assert site.is_dir()
    assert main(["docs", "trouble/hang"]) == 2
    assert "did you mean trouble/hangs?" in capsys.readouterr().err


def test_without_a_build_it_says_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A checkout has the sources of the pages only."""
    monkeypatch.setattr(docs, "installed_site", lambda: tmp_path / "site")
    assert main(["docs"]) == 2
    assert "mkdocs build" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["plan", "check", "--no-gui"])
def test_what_is_wrong_with_a_run_file_names_its_page(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table of the key, once."""
    run_file = tmp_path / "run.toml"
    run_file.write_text('[run]\nrecipe = "byte-gpt"\n[training]\nsteps = 10\nlr = "high"\nclip = "low"\n')
    assert main([command, str(run_file)]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "help: torchdeck docs reference/run-toml#training"


@pytest.mark.processes
def test_a_recipe_that_is_not_trusted_names_the_page_about_trust(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], torchdeck_home: Path
) -> None:
    """As JSON there is no such line."""
    (tmp_path / "mine.py").write_text("")
    run_file = tmp_path / "run.toml"
    run_file.write_text('[run]\nrecipe = "mine.py"\n[training]\nsteps = 10\n')
    assert torchdeck_home.is_absolute()
    assert main(["--no-gui", str(run_file)]) == 3
    assert "help: torchdeck docs recipes#trust" in capsys.readouterr().err
    assert main(["--no-gui", str(run_file), "--json"]) == 3
    assert "help:" not in "".join(capsys.readouterr())
