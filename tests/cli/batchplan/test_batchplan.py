"""`torchdeck batchplan build`, `info`, `shard` and `verify`."""

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from torchdeck.cli.batchplan.progress import ProgressLine
from torchdeck.cli.main import main
from torchdeck.data.batch_plan import changed_source, load_batch_plan
from torchdeck.quantities import size

_NOT_COMPARED = "the data was not compared; give --dataset PATH or --lengths FILE to do so"


@pytest.fixture
def lengths(tmp_path: Path) -> Path:
    """300 lengths from 1 to 50, one a line."""
    path = tmp_path / "lengths.txt"
    path.write_text("".join(f"{index * 31 % 50 + 1}\n" for index in range(300)))
    return path


@pytest.fixture
def plan(tmp_path: Path, lengths: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "plan"
    assert _run("build", "--lengths", lengths, "-o", path, "--token-budget", "200") == 0
    capsys.readouterr()
    return path


def _run(*arguments: object) -> int:
    return main(["batchplan", *map(str, arguments)])


def test_build_says_what_it_made(tmp_path: Path, lengths: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Samples, microbatches, padding, fingerprint and place; the same as JSON."""
    place = tmp_path / "p"
    arguments = ("build", "--lengths", lengths, "--token-budget", 200, "--epochs", 2)
    assert _run(*arguments, "-o", place) == 0
    written = load_batch_plan(place, verify=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "300 of 300 samples used (lengths in tokens)"
    assert lines[1].startswith(f"{written.total_microbatches} microbatches in 2 epochs, 15,300 tokens, ")
    assert lines[2] == f"fingerprint {written.fingerprint}"
    assert lines[3].startswith(f"written to {place} in ")
    assert _run(*arguments, "-o", tmp_path / "q", "--json") == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["fingerprint"], value["epochs"]) == (written.fingerprint, 2)
    assert value["counts"] == {"used": 300, "truncated": 0, "dropped_long": 0, "dropped_empty": 0}


@pytest.mark.parametrize("kind", ["--lengths", "--dataset"])
def test_build_remembers_its_data(
    tmp_path: Path, lengths: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """By absolute path; numbers that are exchanged, as many as before, are seen."""
    monkeypatch.chdir(tmp_path)
    assert _run("build", kind, lengths.name, "--token-budget", 200) == 0
    assert changed_source("batch_plan") is None
    lengths.write_text("".join(reversed(lengths.read_text().splitlines(keepends=True))))
    changed = changed_source("batch_plan")
    assert changed is not None
    assert changed.build == f"torchdeck batchplan build {kind} {lengths}"
    assert _run("build", kind, lengths.name, "--token-budget", 200, "--overwrite") == 0
    assert changed_source("batch_plan") is None


def test_build_says_what_a_recipe_needs(
    tmp_path: Path, lengths: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A plan that packs or cuts is for a collate that takes a layout; others say nothing of it."""
    arguments = ("build", "--lengths", lengths, "--token-budget", 200, "-o", tmp_path / "p", "--overwrite")
    for more, said in (
        ((), ""),
        (("--pack", "--max-length", 50), "the plan packs several samples into a row: "),
        (("--too-long", "truncate", "--max-length", 40), "samples to its maximum length: "),
    ):
        assert _run(*arguments, *more) == 0
        out = capsys.readouterr().out
        assert ("recipes need collate(samples, layout=None)" in out) == bool(said)
        assert said in out


def test_build_from_a_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bytes of lines count, policies are those asked for, and the fingerprint covers the tokenizer."""
    (tmp_path / "d.txt").write_text("abc\n\n" + "x" * 40 + "\nde\n")
    (tmp_path / "t.json").write_text("{}")
    place = tmp_path / "p"
    options = ("--empty", "drop", "--too-long", "truncate", "--max-length", 8, "--token-budget", 16, "--pack")
    more = ("--buckets", "4,8", "--pad-to", "bucket", "--layout", "jsonl", "--tokenizer", tmp_path / "t.json")
    assert _run("build", "--dataset", tmp_path / "d.txt", "-o", place, *options, *more) == 0
    assert "3 of 4 samples used, 1 of them truncated; dropped: 1 empty (lengths in bytes)" in (
        capsys.readouterr().out
    )
    assert (place / "epoch_0.jsonl").is_file()
    assert _run("verify", place, "--dataset", tmp_path / "d.txt", "--tokenizer", tmp_path / "t.json") == 0
    (tmp_path / "t.json").write_text("[]")
    assert _run("verify", place, "--tokenizer", tmp_path / "t.json") == 1
    assert "is stale: it was built for the tokenizer" in capsys.readouterr().out


def test_build_has_defaults(
    tmp_path: Path, lengths: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lengths alone are enough: the plan goes to ./batch_plan."""
    monkeypatch.chdir(tmp_path)
    assert _run("build", "--lengths", lengths) == 0
    assert "written to batch_plan in" in capsys.readouterr().out
    assert load_batch_plan("batch_plan").meta.settings.token_budget == 16384


def test_what_build_refuses(tmp_path: Path, plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bad input is one sentence and status 2, and nothing is written."""
    np.save(tmp_path / "nan.npy", np.array([1.0, np.nan]))
    (tmp_path / "long.txt").write_text("3\n300\n")
    there = sorted(tmp_path.iterdir())
    for arguments, said in (
        (("--lengths", tmp_path / "none.txt"), "none.txt: No such file or directory"),
        (("--lengths", tmp_path / "nan.npy"), "whole numbers, not float64: sample 1 has nan"),
        (("--lengths", tmp_path / "long.txt", "--token-budget", 9), "1 of 2 samples are longer than 9"),
        (
            ("--lengths", tmp_path / "long.txt", "--buckets", "a"),
            "--buckets a: give a number, or upper bounds",
        ),
        (("--lengths", tmp_path / "long.txt", "-o", plan), "already exists: choose another --output"),
    ):
        place = () if "-o" in arguments else ("-o", tmp_path / "new")
        assert _run("build", *arguments, *place) == 2
        error = capsys.readouterr().err
        assert error.startswith("torchdeck batchplan build: ")
        assert said in error
        assert len(error.splitlines()) == 1
    assert sorted(tmp_path.iterdir()) == there
    assert _run("build", "--lengths", tmp_path / "long.txt", "-o", plan, "--overwrite") == 0


def test_info(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan in short, its buckets, and with a world size what each rank would have."""
    assert _run("info", plan) == 0
    text = capsys.readouterr().out
    assert "settings     at most 200 tokens, seed 0" in text
    assert "bucket  up to  microbatches  samples  tokens  padding" in text
    assert _run("info", plan, "-w", 20, "--balance", "tokens") == 0
    text = capsys.readouterr().out
    assert "20 ranks, balanced by tokens: most tokens of a rank / mean = 1." in text
    assert "and 4 more (--rank R shows one); of all: " in text
    assert _run("info", plan, "--world-size", 2, "--rank", 1) == 0
    opened = load_batch_plan(plan)
    ids = ", ".join(map(str, opened.microbatch(0, 1).sample_ids.tolist()[:16]))
    assert f"samples {ids}" in capsys.readouterr().out


def test_info_as_json(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same as one object: buckets, every rank, or one rank with its first microbatches."""
    assert _run("info", plan, "--json") == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["samples"], value["epochs"]) == (300, 1)
    assert sum(row["microbatches"] for row in value["buckets"]) == value["microbatches"]
    assert _run("info", plan, "--json", "-w", 1000) == 0
    world = json.loads(capsys.readouterr().out)["world"]
    assert len(world["ranks"]) == 1000
    assert "ranks have nothing to do" in world["warning"]
    assert _run("info", plan, "--json", "-w", 3, "-r", 2) == 0
    rank = json.loads(capsys.readouterr().out)["world"]["rank"]
    assert rank["rank"] == 2
    assert rank["first_microbatches"][1]["index"] == 1


def test_what_info_refuses(tmp_path: Path, plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A rank without a world, one that is none, no plan, and a shard that is to be shared out."""
    assert _run("shard", plan, "-w", 2, "-o", tmp_path / "s") == 0
    for arguments, said in (
        ((plan, "--rank", 0), "--rank needs --world-size"),
        ((plan, "-w", 2, "-r", 2), "rank 2 is out of range: with 2 ranks it must be from 0 to 1"),
        ((plan, "-w", 0), "world size 0 is out of range"),
        ((tmp_path,), "there is no batch plan in"),
        ((tmp_path / "s" / "rank_0", "-w", 2), "is already a shard"),
    ):
        assert _run("info", *arguments) == 2
        assert said in capsys.readouterr().err
    assert _run("info", tmp_path / "s" / "rank_1") == 0
    assert "shard        rank 1 of 2 (" in capsys.readouterr().out


@pytest.mark.processes
def test_shards_open_in_a_plain_process(
    tmp_path: Path, plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each rank_R is a plan that a process without torch opens; together they have every sample once."""
    assert _run("shard", plan, "-w", 3, "-o", tmp_path / "s", "--balance", "attention", "--cost", 100) == 0
    assert f"divided: {tmp_path / 's'}/rank_0 to rank_2" in capsys.readouterr().out
    script = (
        "import sys\n"
        "from torchdeck.data.batch_plan import changed_source, load_batch_plan\n"
        "for place in sys.argv[1:]:\n"
        "    for _, _, mb in load_batch_plan(place).iter_from(0, 0):\n"
        "        print(*mb.sample_ids.tolist())\n"
        "assert 'torch' not in sys.modules\n"
    )
    places = [str(tmp_path / "s" / f"rank_{rank}") for rank in range(3)]
    printed = subprocess.run(
        [sys.executable, "-c", script, *places], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert sorted(map(int, printed.split())) == list(range(300))
    assert _run("verify", tmp_path / "s") == 0
    assert capsys.readouterr().out == f"{tmp_path / 's'}: sound; {_NOT_COMPARED}\n"


def test_more_ranks_than_microbatches(tmp_path: Path, plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is done, with a warning; a world of no ranks is refused, and leaves nothing."""
    ranks = load_batch_plan(plan).total_microbatches + 1
    assert _run("shard", plan, "-w", ranks, "-o", tmp_path / "s") == 0
    assert "warning: epoch 0 has" in capsys.readouterr().err
    assert load_batch_plan(tmp_path / "s" / f"rank_{ranks - 1}").total_microbatches == 0
    assert _run("shard", plan, "-w", 0, "-o", tmp_path / "z") == 2
    assert "world size 0 is out of range: it must be at least 1" in capsys.readouterr().err
    assert _run("shard", plan, "-w", 10**12, "-o", tmp_path / "z") == 2
    assert "world size 1000000000000 is out of range: it must be at most" in capsys.readouterr().err
    assert not (tmp_path / "z").exists()


def test_a_run_is_not_replaced_by_a_plan(
    tmp_path: Path, lengths: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run's folder has a plan.json, too: overwriting does not take it for a batch plan."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "plan.json").write_text("{}")
    (run / "journal.log").write_text("precious")
    assert _run("build", "--lengths", lengths, "-o", run, "--overwrite") == 2
    assert "is no batch plan, or more than that: it is not overwritten" in capsys.readouterr().err
    assert (run / "journal.log").read_text() == "precious"


def test_what_shares_out_is_checked_though_it_is_not_used(
    plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A window or cost that cannot be is refused even where nothing is balanced."""
    assert _run("info", plan, "-w", 2, "--window", 0) == 2
    assert "window must be a whole number of microbatches from 1, not 0" in capsys.readouterr().err
    assert _run("info", plan, "-w", 2, "--cost", -1) == 2
    assert "c of the attention cost must be a whole number from 0" in capsys.readouterr().err


def test_verify(plan: Path, lengths: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sound is 0; damaged or stale is 1 with the reason; what is not there is 2."""
    assert _run("verify", plan, "--lengths", lengths) == 0
    assert capsys.readouterr().out == f"{plan}: sound\n"
    assert _run("verify", plan) == 0
    assert capsys.readouterr().out == f"{plan}: sound; {_NOT_COMPARED}\n"
    assert _run("verify", plan, "--json") == 0
    assert json.loads(capsys.readouterr().out)["data_compared"] is False
    lengths.write_text("3\n")
    assert _run("verify", plan, "--lengths", lengths, "--json") == 1
    value = json.loads(capsys.readouterr().out)
    assert value["sound"] is False
    assert "is stale: it was built for the data set lengths-" in value["problem"]
    content = bytearray((plan / "columns.bin").read_bytes())
    content[5] ^= 4
    (plan / "columns.bin").write_bytes(content)
    assert _run("verify", plan) == 1
    assert "was edited or is damaged" in capsys.readouterr().out
    assert _run("verify", plan.parent / "none") == 2
    assert "there is no batch plan in" in capsys.readouterr().err


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_of_something_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in the first second; then lines now and then, or one line in place on a terminal."""
    now = 100.0
    monkeypatch.setattr("torchdeck.cli.batchplan.progress.time.monotonic", lambda: now)
    log, terminal = io.StringIO(), _Terminal()
    lines = [ProgressLine(log), ProgressLine(terminal)]
    for moment in (100.5, 101.1, 101.2, 101.4, 106.2):
        now = moment
        for line in lines:
            line("epochs planned", int(moment), 1000)
    for line in lines:
        line.end()
    assert log.getvalue() == "epochs planned: 101 of 1,000 (10 %)\nepochs planned: 106 of 1,000 (10 %)\n"
    assert terminal.getvalue().count("\repochs planned: ") == 3
    assert ProgressLine(log, number=size)._number(3 << 20) == "3.0 MiB"
    assert terminal.getvalue().endswith("\r" + " " * len("epochs planned: 106 of 1,000 (10 %)") + "\r")
