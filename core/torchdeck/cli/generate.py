"""`torchdeck generate`: a trained model continues a text."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchdeck.cli.ckpt.chosen_checkpoint import WHERE, run_named
from torchdeck.cli.ckpt.exchange import checkpoint_here
from torchdeck.cli.output import USAGE, json_text, write_document
from torchdeck.cli.refusals import print_pages
from torchdeck.contract.refusal import Refusal

if TYPE_CHECKING:
    from torchdeck.use_cases.generation.generate import Answered, Sampling
    from torchdeck.use_cases.generation.trained_model import TrainedModel

NAME = "torchdeck generate"
FAILED = 1


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the parser of `torchdeck`."""
    parser = commands.add_parser(
        "generate",
        help="let a trained model continue a text",
        description="Let a model of recipe byte-gpt, byte-finetune or bdh continue a prompt. The answer is "
        "printed as it is written. A process of its own computes it on the CPU. The sizes of the model "
        "are those of the run that saved the checkpoint; if that run is not on this machine, or for a "
        "file of weights, name its run file with --run.",
    )
    parser.add_argument("id", metavar="ID", help=f"{WHERE}; a checkpoint, an export, or a file of weights")
    parser.add_argument("step", metavar="STEP", nargs="?", help="a step or `final`; default: the newest")
    parser.add_argument("--prompt", metavar="TEXT", required=True, help="text to continue; -: standard input")
    parser.add_argument(
        "--max-tokens", metavar="N", type=int, default=200, help="most tokens of the answer (default: 200)"
    )
    parser.add_argument(
        "--temperature",
        metavar="T",
        type=float,
        default=1.0,
        help="below 1: likely tokens become likelier; 0: always the likeliest (default: 1)",
    )
    parser.add_argument("--top-k", metavar="K", type=int, help="choose among the K likeliest; default: all")
    parser.add_argument("--seed", metavar="N", type=int, help="equal seeds give equal answers")
    parser.add_argument("--ema", action="store_true", help="use the moving average of the weights")
    parser.add_argument("--run", metavar="RUN", help="run file or run whose model it is")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.add_argument("--python", metavar="PATH", help="interpreter that has torch; default: this one")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Generate; 1 when it fails, 2 when what was asked for is not there."""
    from torchdeck.use_cases.generation.generate import Sampling

    try:
        sampling = Sampling(args.max_tokens, args.temperature, args.top_k, args.seed)
    except ValueError as error:
        sys.stderr.write(f"{NAME}: --{str(error).replace('_', '-', 1)}\n")
        return USAGE
    try:
        file = Path(args.id).expanduser()
        source = file if file.is_file() else checkpoint_here(args.id, args.step, NAME)
        return _generate(args, source, _model(args, source), sampling)
    except Refusal as error:
        sys.stderr.write(f"{NAME}: {error}\n")
        print_pages(error)
        return USAGE if error.is_usage else FAILED
    except OSError as error:
        sys.stderr.write(f"{NAME}: {error}\n")
        return FAILED


def _model(args: argparse.Namespace, source: Path) -> TrainedModel:
    from torchdeck.runs.home import usual_home
    from torchdeck.use_cases.generation import trained_model

    if args.run is not None and Path(args.run).is_file():
        return trained_model.model_of_file(Path(args.run))
    named = args.run or ("" if source.is_file() else args.id)
    layout = run_named(named) if named else None
    if layout is not None:
        return trained_model.model_of_run(layout)
    return trained_model.model_of_checkpoint(source, usual_home())


def _generate(args: argparse.Namespace, source: Path, model: TrainedModel, sampling: Sampling) -> int:
    from torchdeck.use_cases.generation.generate import generate

    pieces: list[str] = []

    def show(piece: str) -> None:
        pieces.append(piece)
        if not args.json:
            write_document(piece)
            sys.stdout.flush()

    prompt = sys.stdin.read() if args.prompt == "-" else args.prompt
    interpreter = args.python or sys.executable
    try:
        done = generate(source, model, prompt, sampling, interpreter=interpreter, text=show, ema=args.ema)
    finally:
        if pieces and not args.json:
            sys.stdout.write("\n")
    if args.json:
        sys.stdout.write(json_text(_row(source, "".join(pieces), done)) + "\n")
    if done.unread:
        sys.stderr.write(f"{NAME}: the model did not read the first {done.unread:,} bytes of the prompt\n")
    return 0


def _row(source: Path, answer: str, done: Answered) -> dict[str, Any]:
    return {
        "checkpoint": str(source),
        "answer": answer,
        "tokens": done.tokens,
        "seconds": round(done.seconds, 3),
        "ended": done.ended,
        "unread": done.unread,
    }
