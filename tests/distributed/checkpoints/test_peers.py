"""Steps that succeed on all ranks or fail on all; real ranks are in test_store.py."""

import pytest

from torchdeck.contract.checkpoints.manifest import CheckpointError
from torchdeck.distributed.checkpoints.peers import Peers, count, sentence


def test_alone_a_step_is_just_done() -> None:
    """One rank needs no process group, and a failure says what failed without naming ranks."""
    alone = Peers(0, 1, 5.0)
    assert alone.group is None
    assert alone.together("counting", lambda: 3, count) == [3]
    assert alone.first("counting", lambda: 3, count) == 3
    assert alone.step("counting", lambda: 3) == 3
    assert alone.reduce_scatter("counting", lambda: 3, lambda found: [found[0] + 1]) == 4
    with pytest.raises(CheckpointError, match=r"^counting failed: ZeroDivisionError: .*by zero$"):
        alone.together("counting", lambda: 1 // 0, count)
    with pytest.raises(CheckpointError, match=r"^counting failed: ZeroDivisionError: .*by zero$"):
        alone.reduce_scatter("counting", lambda: 0, lambda found: [1 // found[0]])


def test_a_wrong_answer_is_refused() -> None:
    """What a rank sends is checked before it is used, and the rank is named."""
    alone = Peers(0, 1, 5.0)
    with pytest.raises(
        CheckpointError, match=r"counting failed: what rank 0 sent is refused: -3 is no whole"
    ):
        alone.together("counting", lambda: -3, count)


def test_many_ranks_need_a_process_group() -> None:
    """Without torch.distributed there is a sentence, not a hang."""
    with pytest.raises(CheckpointError, match=r"need torch\.distributed initialised for as many"):
        Peers(0, 2, 5.0).together("counting", lambda: 3, count)


def test_sentences_of_errors() -> None:
    """An OSError is said with its file and reason, others with their kind, ours as they are."""
    assert sentence(OSError(28, "No space left on device", "/x")) == "/x: No space left on device"
    assert sentence(ValueError("bad\nand long")) == "ValueError: bad"
    assert sentence(ValueError()) == "ValueError: ValueError"
    assert sentence(CheckpointError("as it is")) == "as it is"
