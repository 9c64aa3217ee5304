"""The documentation builds without a warning, is complete, and needs no network."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

import torchdeck
from torchdeck.cli.main import COMMANDS
from torchdeck.config.documentation import help_of
from torchdeck.config.keys import all_keys
from torchdeck.config.problems import Problem
from torchdeck.config.schema import BUILTIN_RECIPES
from torchdeck.contract.inventory import LOCALHOST
from torchdeck.contract.refusal import Refusal
from torchdeck.data import HOMES as DATA_NAMES
from torchdeck.distributed import HOMES as DISTRIBUTED_NAMES
from torchdeck.plan.check import PAGES as CHECK_PAGES
from torchdeck.plan.check import failed
from torchdeck.runs.failures.chapter import chapter
from torchdeck.use_cases.docs import find_page, pages

pytestmark = pytest.mark.processes

ROOT = Path(__file__).resolve().parents[2]
NEED_MORE = ("distributed", "integrations", "recipes", "tracing")
"""Rooms that need torch or TensorFlow; their errors reach the user through the logs of ranks."""
LOADED = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=[\"']?(https?:)?//")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built documentation."""
    folder = tmp_path_factory.mktemp("built") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_built_and_found(site: Path) -> None:
    """Each Markdown file is a page that `torchdeck docs` opens by the file's name."""
    files = sorted((ROOT / "docs").rglob("*.md"))
    assert len(files) > 18
    for file in files:
        name = str(file.relative_to(ROOT))
        assert find_page(site, name) == name.removeprefix("docs/").removesuffix(".md") + ".html"
    assert len(pages(site)) == len(files)


def test_pages_load_nothing_from_the_network(site: Path) -> None:
    """Scripts, styles, fonts and pictures come from the site itself."""
    for page in site.rglob("*.html"):
        assert not LOADED.search(page.read_text("utf-8")), page
    for style in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?https?:", style.read_text("utf-8")), style


def test_the_reference_of_run_toml_has_every_key(site: Path) -> None:
    """And nothing but the schema says which there are."""
    text = (site / "reference/run-toml.html").read_text("utf-8")
    missing = [key.name for key in all_keys().values() if not key.free and f">{key.path[-1]}<" not in text]
    missing = [name for name in missing if f"[{name}]" not in text]
    assert not missing


def test_the_help_of_every_key_leads_to_its_table(site: Path) -> None:
    """As the link in the window does."""
    text = (site / "reference/run-toml.html").read_text("utf-8")
    for recipe in BUILTIN_RECIPES:
        for key in all_keys(recipe).values():
            page, _, anchor = help_of(key).page.partition("#")
            assert page == "reference/run-toml"
            assert not anchor or f'id="{anchor}"' in text, key.name


def test_the_reference_of_the_command_line_has_every_command(site: Path) -> None:
    """Families with their commands."""
    text = (site / "reference/cli.html").read_text("utf-8")
    for name in (*COMMANDS, "runs resume", "nodes add", "ckpt export"):
        assert f"torchdeck {name}<" in text, name


def test_the_reference_of_python_has_every_public_name(site: Path) -> None:
    """Each with an anchor of its own."""
    text = (site / "reference/python.html").read_text("utf-8")
    for name, module in {**DATA_NAMES, **DISTRIBUTED_NAMES}.items():
        assert f'id="{module}.{name}"' in text, name


def test_known_failures_are_on_the_page_about_failures(site: Path) -> None:
    """The chapter that `torchdeck runs show` quotes."""
    text = (site / "trouble/failed.html").read_text("utf-8")
    sections = chapter()
    assert len(sections) > 10
    assert text.count("<h3") >= len(sections)


def test_errors_name_pages_that_exist(site: Path) -> None:
    """Every kind of error, every check before a start, every table of a run file, and every known failure."""
    for module in walk_packages(torchdeck.__path__, "torchdeck."):
        if module.name.split(".")[1] not in NEED_MORE:
            import_module(module.name)
    kinds = subclasses(Refusal)
    assert len(kinds) > 40
    named = {kind.__name__: kind.page for kind in kinds if kind.page}
    assert len(named) > 20
    named |= {f"check {name}": failed(name, LOCALHOST, "wrong", "mend it").page for name in CHECK_PAGES}
    named |= {key.name: Problem(key.name, "", None, "wrong", "right").page for key in all_keys().values()}
    named |= {advice.title: advice.page for advice in chapter()}
    named["an error with a remedy"] = Refusal("wrong", fix="mend it").page
    for name, page in named.items():
        path = find_page(site, page)
        assert path is not None, f"{name} names {page}"
        file, _, anchor = path.partition("#")
        assert not anchor or f'id="{anchor}"' in (site / file).read_text("utf-8"), f"{name} names {page}"


def subclasses(kind: type[Refusal]) -> set[type[Refusal]]:
    """All kinds below `kind`."""
    return {below for each in kind.__subclasses__() for below in {each, *subclasses(each)}}
