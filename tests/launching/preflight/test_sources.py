"""What is to be run is there: script, module, recipe, and trust in it."""

import pytest

from support.values.checked_config import CheckedConfig, assert_refused
from torchdeck.trust.trust_list import TrustList


def test_a_missing_script_is_named(checked: CheckedConfig) -> None:
    """The path is in the sentence."""
    assert_refused(checked.script("absent.py")["script"], "absent.py", "does not exist", "run.script")


def test_a_folder_is_no_script(checked: CheckedConfig) -> None:
    """Python would start something else in it."""
    (checked.folder / "pkg").mkdir()
    assert_refused(checked.checks({"script": "pkg"})["script"], "is not a file")


@pytest.mark.parametrize(
    ("module", "status"),
    [
        ("pkg", "ok"),
        ("pkg.train", "ok"),
        ("pkg.inner.deep", "ok"),
        ("json.tool", "ok"),
        ("pkg.absent", "failed"),
        ("nothing_of_this_name", "failed"),
    ],
)
def test_modules_are_found_without_running_them(checked: CheckedConfig, module: str, status: str) -> None:
    """In the working directory or installed; code of the package is not executed by looking."""
    inner = checked.folder / "pkg/inner"
    inner.mkdir(parents=True)
    (checked.folder / "pkg/__init__.py").write_text("raise SystemExit('executed')")
    (checked.folder / "pkg/train.py").touch()
    (inner / "deep.py").touch()
    assert checked.checks({"module": module})["module"].status == status


def test_a_module_on_the_users_path_is_found(checked: CheckedConfig) -> None:
    """PYTHONPATH of [run.env] counts."""
    (checked.folder / "lib").mkdir()
    (checked.folder / "lib/mine.py").touch()
    run = {"module": "mine", "env": {"PYTHONPATH": str(checked.folder / "lib")}}
    assert checked.checks(run)["module"].status == "ok"


def test_a_recipe_file_needs_trust(checked: CheckedConfig) -> None:
    """Code of the user's runs only from a folder that was trusted; the sentence says how."""
    (checked.folder / "mine.py").touch()
    run, training = {"recipe": "mine.py"}, {"steps": 1}
    assert_refused(checked.checks(run, training=training)["trust"], str(checked.folder), "--trust")
    checked.home.mkdir(mode=0o700)
    TrustList(checked.home).add(checked.folder)
    assert checked.checks(run, training=training)["trust"].status == "ok"


def test_a_missing_recipe_is_named(checked: CheckedConfig) -> None:
    """Before anything is said of trust."""
    results = checked.checks({"recipe": "mine.py"}, training={"steps": 1})
    assert_refused(results["recipe"], "mine.py does not exist")
    assert "trust" not in results
