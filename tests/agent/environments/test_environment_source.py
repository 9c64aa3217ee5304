"""Files that describe an environment, and its key; by values."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchdeck.agent.environments.environment_files import EnvironmentSourceError, find_source

LOCK = """version = 1
requires-python = ">=3.10"

[[package]]
name = "mine"
version = "1"
source = { virtual = "." }
dependencies = [
    { name = "torch" },
]

[[package]]
name = "torch"
version = "2.13.0"
source = { registry = "https://pypi.org/simple" }
"""


def project(folder: Path, **files: str) -> Path:
    """Write files; `_` in a name stands for its dot."""
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder


def test_the_key_changes_with_what_determines_the_packages(tmp_path: Path) -> None:
    """Lock, project, Python and platform count; other files do not."""
    source = find_source(project(tmp_path, uv_lock=LOCK, pyproject_toml="[project]\n"))
    key = source.key("3.12.1", "linux-x86_64-glibc2.39")
    assert source.name == "uv.lock"
    assert source.version_of("torch") == "2.13.0"
    assert source.version_of("numpy") is None
    project(tmp_path, train_py="print()\n", requirements_txt="torch\n")
    assert find_source(tmp_path).key("3.12.1", "linux-x86_64-glibc2.39") == key
    others = {source.key("3.13.1", "linux-x86_64-glibc2.39"), source.key("3.12.1", "linux-aarch64-glibc2.39")}
    project(tmp_path, uv_lock=LOCK.replace("2.13.0", "2.12.0"))
    others.add(source.key("3.12.1", "linux-x86_64-glibc2.39"))
    assert len(others) == 3
    assert key not in others


def test_requirements_count_with_what_they_include(tmp_path: Path) -> None:
    """A change in an included file makes another environment, and files that include each other end."""
    folder = project(
        tmp_path, requirements_txt="-r base.txt\nnumpy\n", base_txt="torch==2.13.0\n-r requirements.txt\n"
    )
    source = find_source(folder)
    assert source.files == ("requirements.txt", "base.txt")
    before = source.key("3.12.1", "linux")
    project(folder, base_txt="torch==2.12.0\n")
    assert source.key("3.12.1", "linux") != before


@pytest.mark.parametrize(
    "line",
    [
        "./wheels/mine.whl",
        "mine @ ./wheels/mine.whl",
        "mine[x] @ {url}",
        "wheels/mine.whl[x] ; python_version > '3'  # own",
    ],
)
def test_a_wheel_counts_with_its_content(tmp_path: Path, line: str) -> None:
    """It may be built anew under the same name."""
    wheel = tmp_path / "wheels" / "mine.whl"
    wheel.parent.mkdir()
    wheel.write_bytes(b"first")
    project(tmp_path, requirements_txt=f"torch\n{line.format(url=wheel.as_uri())}\n")
    source = find_source(tmp_path)
    before = source.key("3.12.1", "linux")
    wheel.write_bytes(b"second")
    assert source.key("3.12.1", "linux") != before


def test_a_wheel_named_in_the_project_counts_with_its_content(tmp_path: Path) -> None:
    project(tmp_path, pyproject_toml='[tool.uv.sources]\nmine = { path = "mine.whl" }\n', mine_whl="first")
    source = find_source(tmp_path)
    assert source.files == ("pyproject.toml", "mine.whl")


@pytest.mark.parametrize("name", ["uv_lock", "requirements_txt", "pyproject_toml"])
def test_settings_of_uv_count(tmp_path: Path, name: str) -> None:
    """They name package indexes."""
    text = LOCK if name == "uv_lock" else ""
    source = find_source(project(tmp_path, **{"pyproject_toml": "", name: text, "uv_toml": "offline = true"}))
    before = source.key("3.12.1", "linux")
    project(tmp_path, uv_toml="offline = false")
    assert source.key("3.12.1", "linux") != before


@pytest.mark.parametrize(
    "line",
    [
        "mine @ https://example.org/mine-1.tar.gz",
        "mine @ git+ssh://git@example.org/mine",
        "https://user@example.org/mine.whl",
        "torch==2.13.0 ; sys_platform == 'linux'  # see ./docs",
        "torch>=2 --hash=sha256:00/11",
        "--find-links ./wheels",
    ],
)
def test_packages_from_elsewhere_are_no_folders(tmp_path: Path, line: str) -> None:
    assert find_source(project(tmp_path, requirements_txt=line)).files == ("requirements.txt",)


@pytest.mark.parametrize("line", ["libs/mine", "/srv/mine", "mine[x] @ file:///srv/mine", "mine @ ./mine"])
def test_every_way_to_require_a_folder_is_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(EnvironmentSourceError) as refused:
        find_source(project(tmp_path, requirements_txt=f"torch\n{line}\n"))
    assert f"requirements.txt installs a folder ({line})" in refused.value.what


@pytest.mark.parametrize(
    "text",
    [
        '[tool.uv.sources]\nmine = { path = "../mine", editable = true }\n',
        "[tool.uv.sources]\nmine.path = '../mine'\n",
        "[tool.uv.sources]\nmine = { workspace = true }\n",
        '[tool.uv.sources]\nmine = [\n    { path = "../mine", marker = "x" },\n]\n[tool.other]\n',
        '[tool.uv.sources.mine]\npath = "../mine"\n',
        '[project]\ndependencies = ["mine @ file:///srv/mine"]\n',
    ],
)
def test_a_folder_that_the_project_names_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(EnvironmentSourceError, match=r"pyproject\.toml installs a folder"):
        find_source(project(tmp_path, pyproject_toml=text))


def test_other_settings_of_a_project_name_no_folder(tmp_path: Path) -> None:
    text = """
[project]
authors = [{ name = "A", email = "a@example.org" }]
dependencies = ["torch", "mine @ git+https://example.org/mine"]
[tool.uv.sources]
torch = { index = "cpu" }
# mine = { path = "../mine" }
[tool.other]
path = "src"
"""
    assert find_source(project(tmp_path, pyproject_toml=text)).files == ("pyproject.toml",)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, " has no uv.lock, requirements.txt or pyproject.toml"),
        ({"requirements_txt": "-e .\n"}, "installs a folder (-e .)"),
        ({"requirements_txt": "torch\n./libs/mine\n"}, "installs a folder (./libs/mine)"),
        ({"requirements_txt": "-r absent.txt\n"}, "absent.txt cannot be read"),
        (
            {
                "uv_lock": LOCK
                + '\n[[package]]\nname = "lib"\nversion = "1"\nsource = { editable = "lib" }\n',
                "pyproject_toml": "",
            },
            "installs lib from the folder lib",
        ),
    ],
)
def test_what_cannot_be_shared_is_refused(tmp_path: Path, files: dict[str, str], words: str) -> None:
    """A folder's content changes while its name stays, so no key would be right."""
    with pytest.raises(EnvironmentSourceError) as refused:
        find_source(project(tmp_path, **files))
    assert words in refused.value.what
    assert "run.interpreter" in refused.value.fix
