"""Starting a run through the use case that every front end calls."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from support.agents.controlled_run import wait_until_over
from torchdeck.config.loader import LoadedConfig, load_config
from torchdeck.plan.check import PreflightError
from torchdeck.use_cases.plan import PlanRequest, plan
from torchdeck.use_cases.start import Differs, Started, StartRequest, start, start_agreed, start_previewed
from torchdeck.use_cases.ui import QuietUi

pytestmark = pytest.mark.processes


class Cancelled(Exception):  # noqa: N818 - what a front end raises is its own affair
    """The user has cancelled."""


class CancellingUi(QuietUi):
    """Cancels at the last moment."""

    def before_start(self) -> None:
        raise Cancelled


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedConfig:
    (tmp_path / "script.py").write_text("print('hello')\n")
    path = tmp_path / "run.toml"
    path.write_text('[run]\nscript = "script.py"\n[distributed]\nnproc = 1\ndevices = "cpu"\n')
    return load_config(path)


def test_a_run_is_started_and_its_text_kept(home: Path, loaded: LoadedConfig) -> None:
    started = start(StartRequest(loaded, "# as typed\n", "run.toml", ("name=x",), home=home), QuietUi())
    wait_until_over(started.layout)
    started.controller.wait(20)
    assert started.layout.root.parent == home / "runs"
    assert started.layout.config.read_text() == "# as typed\n"


def test_what_is_not_as_previewed_is_not_started_before_it_is_agreed_to(
    home: Path, loaded: LoadedConfig, tmp_path: Path
) -> None:
    previewed = plan(PlanRequest(loaded, trace=False), QuietUi()).plan
    (tmp_path / "script.py").write_text("print('other')\n")
    request = StartRequest(loaded, loaded.text, home=home)
    differs = start_previewed(request, previewed, QuietUi())
    assert isinstance(differs, Differs)
    assert differs.changes == ("script.py was changed",)
    assert not (home / "runs").exists()
    agreed = start_agreed(request, differs.plan, QuietUi())
    wait_until_over(agreed.layout)
    agreed.controller.wait(20)
    assert agreed.layout.attempt(1).rank(0).stdout.read_text() == "other\n"


def test_what_is_as_previewed_is_started(home: Path, loaded: LoadedConfig) -> None:
    previewed = plan(PlanRequest(loaded, trace=False), QuietUi()).plan
    started = start_previewed(StartRequest(loaded, loaded.text, home=home), previewed, QuietUi())
    assert isinstance(started, Started)
    wait_until_over(started.layout)
    started.controller.wait(20)


def test_a_cancelled_start_leaves_no_run(home: Path, loaded: LoadedConfig) -> None:
    with pytest.raises(Cancelled):
        start(StartRequest(loaded, loaded.text, home=home), CancellingUi())
    assert not (home / "runs").exists()


def test_every_reason_against_a_start_is_a_part(home: Path, loaded: LoadedConfig, tmp_path: Path) -> None:
    """Each has what is wrong and what to do in fields of their own."""
    (tmp_path / "script.py").unlink()
    config = loaded.config.model_copy(
        update={"run": loaded.config.run.model_copy(update={"working_dir": str(tmp_path / "gone")})}
    )
    with pytest.raises(PreflightError) as caught:
        start(StartRequest(replace(loaded, config=config), loaded.text, home=home), QuietUi())
    parts = caught.value.parts()
    assert len(parts) == len(caught.value.checks) >= 2
    assert all(part.what and part.fix and not part.what.endswith(part.fix) for part in parts)
