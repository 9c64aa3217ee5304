"""Checks before a start."""

import fcntl
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.machines import PYTHON, node
from torchdeck.config.loader import config_from_dict
from torchdeck.launch.preflight import Check, failures, preflight
from torchdeck.launch.preflight.interpreter import check_interpreter
from torchdeck.launch.preflight.network import HostNameCheck
from torchdeck.launch.preflight.room import byte_gpt_parameters
from torchdeck.launch.prepare import Survey, plan_from, survey
from torchdeck.launch.trust import trust
from torchdeck.nodes.inventory import InterpreterFacts, Inventory
from torchdeck.plan.launch_plan import CodeTree


class Checked:
    """The checks of one config in a folder of its own, with an interpreter that has all it needs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.interpreter = PYTHON
        self.gpus = 0

    def checks(self, run: dict[str, Any], **tables: Any) -> dict[str, Check]:
        """The worst check of each name."""
        asked = config_from_dict({"run": run, **tables}, self.folder)
        inventory = Inventory((node(gpus=self.gpus),))
        found = Survey(inventory, {"localhost": self.interpreter}, {}, CodeTree(), ())
        order = ["ok", "warning", "failed"]
        results = preflight(asked, plan_from(asked, found), found, self.home)
        return {check.name: check for check in sorted(results, key=lambda check: order.index(check.status))}

    def recipe(self, **tables: Any) -> dict[str, Check]:
        return self.checks({"recipe": "byte-gpt"}, **{"training": {"steps": 1}, **tables})

    def script(self, name: str = "train.py", **tables: Any) -> dict[str, Check]:
        (self.folder / "train.py").touch()
        return self.checks({"script": name}, **tables)


@pytest.fixture
def checked(tmp_path: Path) -> Checked:
    return Checked(tmp_path)


def assert_refused(check: Check, *words: str) -> None:
    """It failed, says why in one line, and what to do."""
    assert check.status == "failed", check
    assert all(word in str(check) for word in words), str(check)
    assert "\n" not in str(check)
    assert check.fix


def test_a_right_run_passes(checked: Checked) -> None:
    """Nothing stands in the way of the built-in recipe or of a script."""
    for results in (checked.recipe(), checked.script()):
        assert not failures(list(results.values()))
        assert {"working_dir", "interpreter", "torch", "devices", "home", "disk", "host name"} <= set(results)


def test_preflight_needs_no_torch_and_little_time(tmp_path: Path) -> None:
    """In a fresh process, planning and all checks take well under the time of one import of torch."""
    (tmp_path / "run.toml").write_text('[run]\nrecipe = "byte-gpt"\n[training]\nsteps = 1\n')
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from torchdeck.config.loader import load_config\n"
        "from torchdeck.launch.prepare import plan_from, survey\n"
        "from torchdeck.launch.preflight import preflight\n"
        "config = load_config('run.toml').config\n"
        "def once():\n"
        "    start = time.perf_counter()\n"
        "    found = survey(config)\n"
        "    preflight(config, plan_from(config, found), found, Path('home'))\n"
        "    return time.perf_counter() - start\n"
        "print(min(once() for _ in range(3)), 'torch' in sys.modules, 'numpy' in sys.modules)\n"
    )
    out = subprocess.check_output([sys.executable, "-c", code], cwd=tmp_path, text=True, timeout=60).split()
    assert float(out[0]) < 0.05
    assert out[1:] == ["False", "False"]


def test_machines_that_are_only_described_are_not_launched_on(tmp_path: Path) -> None:
    """A plan of them is made; the start is refused, and it is said what can be done with the plan."""
    asked = config_from_dict(
        {
            "run": {"recipe": "byte-gpt"},
            "training": {"steps": 1},
            "cluster": {"nodes": [{"name": "gpu[1-9]", "gpus": 8}]},
        },
        tmp_path,
    )
    found = survey(asked, {})
    plan = plan_from(asked, found)
    assert plan.world_size == 72
    (check,) = preflight(asked, plan, found, tmp_path / "home")
    assert_refused(check, "gpu1, gpu2, gpu3 and 6 more are only described", "torchdeck plan", "localhost")
    assert not (tmp_path / "home").exists()


def test_a_missing_script_is_named(checked: Checked) -> None:
    """The path is in the sentence."""
    assert_refused(checked.script("absent.py")["script"], "absent.py", "does not exist", "run.script")


def test_a_folder_is_no_script(checked: Checked) -> None:
    """Python would start something else in it."""
    (checked.folder / "pkg").mkdir()
    assert_refused(checked.checks({"script": "pkg"})["script"], "is not a file")


def test_a_missing_working_directory_is_named(checked: Checked) -> None:
    """The ranks could not even start."""
    run = {"recipe": "byte-gpt", "working_dir": "nowhere"}
    results = checked.checks(run, training={"steps": 1})
    assert_refused(results["working_dir"], "nowhere", "does not exist", "run.working_dir")


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
def test_modules_are_found_without_running_them(checked: Checked, module: str, status: str) -> None:
    """In the working directory or installed; code of the package is not executed by looking."""
    inner = checked.folder / "pkg/inner"
    inner.mkdir(parents=True)
    (checked.folder / "pkg/__init__.py").write_text("raise SystemExit('executed')")
    (checked.folder / "pkg/train.py").touch()
    (inner / "deep.py").touch()
    assert checked.checks({"module": module})["module"].status == status


def test_a_module_on_the_users_path_is_found(checked: Checked) -> None:
    """PYTHONPATH of [run.env] counts."""
    (checked.folder / "lib").mkdir()
    (checked.folder / "lib/mine.py").touch()
    run = {"module": "mine", "env": {"PYTHONPATH": str(checked.folder / "lib")}}
    assert checked.checks(run)["module"].status == "ok"


@pytest.mark.parametrize(
    ("facts", "recipe", "name", "status", "words"),
    [
        (
            InterpreterFacts("/p", error="there is no such file"),
            False,
            "interpreter",
            "failed",
            "no such file",
        ),
        (InterpreterFacts("/p", "3.9.1", "2.13.0", "2"), False, "interpreter", "failed", "Python 3.10"),
        (InterpreterFacts("/p", "3.11.7", None, "2"), False, "torch", "failed", "/p -m pip install torch"),
        (InterpreterFacts("/p", "3.11.7", "2.9.1", "2"), True, "torch", "failed", "older than 2.10"),
        (InterpreterFacts("/p", "3.11.7", "2.9.1", "2"), False, "torch", "warning", "older than 2.10"),
        (InterpreterFacts("/p", "3.11.7", "2.13.0", None), True, "numpy", "failed", "pip install numpy"),
    ],
)
def test_what_an_interpreter_lacks_is_said(
    facts: InterpreterFacts, recipe: bool, name: str, status: str, words: str
) -> None:
    """Each lack has its sentence and the command that mends it; a script asks for less than a recipe."""
    found = {check.name: check for check in check_interpreter(facts, "localhost", recipe=recipe)}
    assert found[name].status == status
    assert words in str(found[name])


def test_a_script_needs_no_numpy(checked: Checked) -> None:
    """Only our trainer does."""
    checked.interpreter = InterpreterFacts("/p", "3.11.7", "2.13.0", None)
    assert "numpy" not in checked.script()


@pytest.fixture
def held_lease(checked: Checked) -> Iterator[Checked]:
    """The second of two GPUs belongs to another run."""
    checked.gpus = 2
    leases = checked.home / "leases"
    leases.mkdir(parents=True, mode=0o700)
    checked.home.chmod(0o700)
    with (leases / "GPU-localhost-1.lock").open("w") as file:
        json.dump({"run_id": "20261121T000000Z-other-abcdef", "name": "other", "device": "1", "pid": 1}, file)
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        yield checked


def test_a_leased_device_is_refused_with_whose_it_is(held_lease: Checked) -> None:
    """Name and id of the run that has it, and what can be done."""
    check = held_lease.script()["devices"]
    assert_refused(check, "GPU-localhost-1", "20261121T000000Z-other-abcdef", "(other)", "--queue")


def test_with_a_queue_a_leased_device_is_a_warning(held_lease: Checked) -> None:
    """The run will wait for it."""
    check = held_lease.script(launch={"queue": True})["devices"]
    assert (check.status, "waits in the queue" in check.fix) == ("warning", True)


def test_a_device_that_is_not_wanted_may_be_leased(held_lease: Checked) -> None:
    """Another run's GPU is nobody else's business."""
    assert held_lease.script(distributed={"devices": [0]})["devices"].status == "ok"


def test_a_stale_lease_is_free(checked: Checked) -> None:
    """A lock file that nobody locks is a left-over."""
    checked.gpus = 1
    leases = checked.home / "leases"
    leases.mkdir(parents=True)
    checked.home.chmod(0o700)
    (leases / "GPU-localhost-0.lock").write_text('{"run_id": "gone"}')
    assert checked.script()["devices"].status == "ok"


def test_a_port_in_use_is_refused(checked: Checked) -> None:
    """Only a fixed port is looked at, and only when it is taken it is refused."""
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        results = checked.script(distributed={"rendezvous": {"port": port}})
        assert_refused(results["port"], f"port {port} is in use", '"auto"')
    assert checked.script(distributed={"rendezvous": {"port": port}})["port"].status == "ok"
    assert "port" not in checked.script()


@pytest.mark.parametrize("name", ['a"b', "a:b", "a\\b", "a\nb"])
def test_a_home_that_breaks_paths_is_refused(checked: Checked, name: str) -> None:
    """The home's path stands in PYTHONPATH and in JSON."""
    checked.home = checked.folder / name
    assert_refused(checked.script()["home"], "TORCHDECK_HOME")


def test_a_home_that_others_may_write_in_is_refused(checked: Checked) -> None:
    """Code of ours runs from there."""
    checked.home.mkdir()
    checked.home.chmod(0o777)
    check = checked.script()["home"]
    assert check.status == "failed"
    assert "chmod go-w" in str(check)


def test_a_file_in_the_place_of_a_folder_is_refused(checked: Checked) -> None:
    """For the home and for checkpoints alike."""
    (checked.folder / "file").touch()
    checked.home = checked.folder / "file/home"
    results = checked.script(checkpoint={"directory": "file"})
    assert_refused(results["home"], "is not a folder")
    assert_refused(results["checkpoint folder"], "is not a folder", "checkpoint.directory")


def test_an_unwritable_folder_is_refused(checked: Checked) -> None:
    """In /proc not even the superuser can write."""
    checked.home = Path("/proc/torchdeck")
    results = checked.script(checkpoint={"directory": "/proc/self"})
    assert_refused(results["home"], "cannot be made in /proc", "TORCHDECK_HOME")
    assert_refused(results["checkpoint folder"], "/proc/self is not writable", "checkpoint.directory")


def test_an_unwritable_folder_is_said_once(checked: Checked) -> None:
    """No second sentence about its room, or about checkpoints in it."""
    for directory in ("/proc/torchdeck", "train.py"):
        (checked.folder / "train.py").touch()
        found = checked.recipe(checkpoint={"directory": directory})
        assert [check.name for check in failures(list(found.values()))] == ["checkpoint folder"]


def test_looking_leaves_nothing_behind(checked: Checked) -> None:
    """Preflight writes to see whether it can, and takes it away."""
    checked.home.mkdir(mode=0o700)
    (checked.folder / "ck").mkdir()
    checked.script(checkpoint={"directory": "ck"})
    assert sorted(path.name for path in checked.folder.rglob("*")) == ["ck", "home", "train.py"]


def test_a_checkpoint_folder_open_to_all_is_a_warning(checked: Checked) -> None:
    """Shared on purpose perhaps; said all the same."""
    (checked.folder / "ck").mkdir()
    (checked.folder / "ck").chmod(0o777)
    check = checked.recipe(checkpoint={"directory": "ck"})["checkpoint folder"]
    assert (check.status, "chmod o-w" in check.fix) == ("warning", True)


def test_a_full_disk_is_refused(checked: Checked) -> None:
    """Less is free than the run would stop at."""
    assert_refused(checked.script(limits={"min_free_disk": 2**60})["disk"], "min_free_disk", "make room")


def test_room_for_checkpoints_counts(checked: Checked) -> None:
    """A model whose checkpoint does not fit is refused before it trains."""
    model = {"layers": 1000, "width": 65536, "heads": 1}
    assert_refused(checked.recipe(model=model)["disk"], "a checkpoint of about", "TiB")


def test_parameters_are_those_of_the_model() -> None:
    """The estimate is the number of the model's own parameters."""
    recipe = pytest.importorskip("torchdeck.recipes.byte_gpt")
    asked = config_from_dict({"run": {"recipe": "byte-gpt"}, "training": {"steps": 1}}, "/")
    model = recipe.build_model(dict(asked.model))
    assert byte_gpt_parameters(asked) == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        ({}, "failed", "holds no text"),
        ({"a.txt": b""}, "failed", "holds no text"),
        ({"a.bin": b"\0" * 9999}, "failed", "holds no text"),
        ({".hidden": b"x" * 9999}, "failed", "holds no text"),
        ({"a.txt": b"x" * 500}, "failed", "500 bytes"),
        ({"a.txt": b"x" * 2600, "b.txt": b"y" * 10}, "ok", ""),
    ],
)
def test_data_that_is_empty_or_short_is_refused(
    checked: Checked, content: dict[str, bytes], status: str, words: str
) -> None:
    """Each part, held-out too, needs one sample of 128 bytes and one more: 2,580 bytes at 5 % held out."""
    (checked.folder / "text").mkdir()
    for name, data in content.items():
        (checked.folder / "text" / name).write_bytes(data)
    check = checked.recipe(data={"source": "text"})["data"]
    assert check.status == status
    assert words in str(check)


def test_data_that_is_not_there_is_refused(checked: Checked) -> None:
    """The path is in the sentence."""
    assert_refused(checked.recipe(data={"source": "nowhere"})["data"], "nowhere", "does not exist")


def test_a_file_of_tokens_must_be_there(checked: Checked) -> None:
    """Of a run that reads tokens no text is looked for."""
    assert_refused(checked.recipe(data={"tokens": "t.bin"})["data"], "t.bin is no file", "no tokens")
    (checked.folder / "t.bin").write_bytes(b"\1\0" * 500)
    assert "tokens in" in str(checked.recipe(data={"tokens": "t.bin"})["data"])


def test_a_limit_on_data_counts(checked: Checked) -> None:
    """max_bytes can make the standard library too short."""
    assert_refused(checked.recipe(data={"max_bytes": 1000})["data"], "data.max_bytes", "model.context")


def test_data_has_the_exact_least_size(checked: Checked) -> None:
    """One byte less is refused: the recipe would refuse it too."""
    file = checked.folder / "text.txt"
    options: dict[str, Any] = {"data": {"source": "text.txt", "heldout": 0.0}, "model": {"context": 16}}
    file.write_bytes(b"x" * 16)
    assert checked.recipe(**options)["data"].status == "failed"
    file.write_bytes(b"x" * 17)
    assert checked.recipe(**options)["data"].status == "ok"


def manifest(folder: Path, files: dict[str, bytes]) -> None:
    """A checkpoint of these files, as a save leaves it."""
    module = pytest.importorskip("torchdeck.distributed.checkpoints.manifest")
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    written = module.Manifest(
        step=40,
        world_size=2,
        strategy="ddp",
        run_id="r",
        attempt=1,
        created=1.0,
        seconds=1.0,
        position={},
        model_fingerprint="f",
        files={name: module.hash_file(folder / name) for name in files},
    )
    (folder / "manifest.json").write_bytes(written.render())


def test_a_checkpoint_to_resume_from_is_looked_at(checked: Checked) -> None:
    """Whole: its step is told. Absent, cut short, incomplete, or its parent: refused with the reason."""
    whole = checked.folder / "ck/step_00000040"
    manifest(whole, {"weights": b"w" * 10, "rank0": b"r"})
    resume = {"resume": str(whole)}
    assert "step 40" in checked.recipe(checkpoint=resume)["resume"].what
    parent = checked.recipe(checkpoint={"resume": str(whole.parent)})["resume"]
    assert_refused(parent, "step_00000040")
    (whole / "weights").write_bytes(b"w")
    assert_refused(checked.recipe(checkpoint=resume)["resume"], "damaged", "weights")
    (whole / "weights").unlink()
    assert_refused(checked.recipe(checkpoint=resume)["resume"], "weights is missing")
    (whole / "manifest.json").unlink()
    assert_refused(checked.recipe(checkpoint=resume)["resume"], "manifest.json")
    assert_refused(checked.recipe(checkpoint={"resume": "gone"})["resume"], "gone does not exist")


def test_of_a_checkpoint_spread_over_nodes_only_this_nodes_files_are_wanted(checked: Checked) -> None:
    """Nodes without a shared disk: the other's files lie elsewhere, and a run brings them together."""
    from torchdeck.distributed.checkpoints.manifest import MANIFEST_NAME, read_manifest

    part = checked.folder / "ck/step_00000040"
    manifest(part, {"here": b"h", "there": b"t"})
    whole = read_manifest(part)
    files = {name: replace(entry, node=f"node {name}") for name, entry in whole.files.items()}
    (part / MANIFEST_NAME).write_bytes(replace(whole, files=files, node="node here").render())
    (part / "there").unlink()
    assert "step 40" in checked.recipe(checkpoint={"resume": str(part)})["resume"].what
    (part / "here").unlink()
    assert_refused(checked.recipe(checkpoint={"resume": str(part)})["resume"], "here is missing")


def test_auto_says_what_it_finds(checked: Checked) -> None:
    """In a named folder: the newest complete one, none yet, or only a broken one."""
    named = {"directory": "ck"}
    assert "no checkpoint" in checked.recipe(checkpoint=named)["resume"].what
    manifest(checked.folder / "ck/step_00000040", {"w": b"w"})
    assert "step 40" in checked.recipe(checkpoint=named)["resume"].what
    (checked.folder / "ck/step_00000040/w").unlink()
    assert checked.recipe(checkpoint=named)["resume"].status == "warning"
    assert "resume" not in checked.recipe(checkpoint={"resume": "never"})


def test_a_recipe_file_needs_trust(checked: Checked) -> None:
    """Code of the user's runs only from a folder that was trusted; the sentence says how."""
    (checked.folder / "mine.py").touch()
    run, training = {"recipe": "mine.py"}, {"steps": 1}
    assert_refused(checked.checks(run, training=training)["trust"], str(checked.folder), "--trust")
    checked.home.mkdir(mode=0o700)
    trust(checked.folder, checked.home)
    assert checked.checks(run, training=training)["trust"].status == "ok"


def test_a_missing_recipe_is_named(checked: Checked) -> None:
    """Before anything is said of trust."""
    results = checked.checks({"recipe": "mine.py"}, training={"steps": 1})
    assert_refused(results["recipe"], "mine.py does not exist")
    assert "trust" not in results


def test_an_unknown_host_name_is_a_warning() -> None:
    """torchrun would wait a minute for it; the line for /etc/hosts is given."""

    def unknown() -> None:
        raise socket.gaierror(-2, "Name or service not known")

    check = HostNameCheck("localhost", unknown).result()
    assert (check.status, "/etc/hosts" in check.fix) == ("warning", True)
    assert "does not resolve" in check.what


def test_a_resolver_that_hangs_is_not_waited_for() -> None:
    """The verdict comes at the limit."""
    release = threading.Event()

    def hanging() -> None:
        release.wait(30)

    check = HostNameCheck("localhost", hanging).result(limit=0.1)
    release.set()
    assert (check.status, "more than 0.1 s" in check.what) == ("warning", True)


def test_this_machine_can_be_surveyed(tmp_path: Path) -> None:
    """The real facts, gathered as launch gathers them, make a plan."""
    (tmp_path / "train.py").write_text("print(1)")
    asked = config_from_dict({"run": {"script": "train.py"}, "distributed": {"devices": "cpu"}}, tmp_path)
    found = survey(asked)
    made = plan_from(asked, found)
    assert made.nodes[0].command == (sys.executable, "-u", "@{code}/train.py")
    assert (made.code.folder, list(made.code.files)) == (str(tmp_path), ["train.py"])


def test_deepspeed_is_wanted_by_its_strategy_alone(checked: Checked) -> None:
    """Before the start, with the command that installs it; a script's own affair."""
    deepspeed = {"strategy": "deepspeed"}
    assert_refused(
        checked.recipe(distributed=deepspeed)["deepspeed"],
        "no DeepSpeed in /usr/bin/python3",
        "/usr/bin/python3 -m pip install 'torchdeck[deepspeed]'",
    )
    checked.interpreter = replace(checked.interpreter, deepspeed="0.19.8")
    assert checked.recipe(distributed=deepspeed)["deepspeed"].status == "ok"
    assert "deepspeed" not in checked.recipe()
