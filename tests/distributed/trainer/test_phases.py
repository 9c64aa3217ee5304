"""Phases as the agent gets to know them."""

from torchdeck.contract.run_states import RankPhase
from torchdeck.distributed.trainer.callback import Callback
from torchdeck.distributed.trainer.hooks import Phases


class Heard(Callback):
    def __init__(self) -> None:
        self.phases: list[tuple[str, int, int | None]] = []

    def phase(self, phase: str, step: int, total: int | None) -> None:
        self.phases.append((phase, step, total))


def test_the_first_batch_of_each_size_is_compiling() -> None:
    """With torch.compile, new sizes and the first evaluation are no hang to be looked for; the rest is."""
    heard = Heard()
    phases = Phases([heard], compiles=True)
    phases.total = 9
    for phase, samples in (
        (RankPhase.TRAINING, 4),
        (RankPhase.TRAINING, 4),
        (RankPhase.TRAINING, 3),
        (RankPhase.EVALUATING, 4),
        (RankPhase.TRAINING, 3),
    ):
        phases.compute(phase, 1, [samples].copy)
    assert [phase for phase, _, _ in heard.phases] == [
        "compiling",
        "training",
        "compiling",
        "compiling",
        "training",
    ]
    assert heard.phases[0] == ("compiling", 1, 9)


def test_without_compile_nothing_is_compiling() -> None:
    """Uncompiled models are watched from the first batch on."""
    heard = Heard()
    phases = Phases([heard], compiles=False)
    phases.compute(RankPhase.TRAINING, 0, lambda: [4])
    phases.enter(RankPhase.SAVING, 1)
    assert heard.phases == [("training", 0, None), ("saving", 1, None)]
