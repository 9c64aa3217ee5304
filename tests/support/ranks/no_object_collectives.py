"""In a rank under test: torch's object collectives fail, whoever calls them."""

from __future__ import annotations

from typing import NoReturn


class UnpickledError(BaseException):
    """A rank is about to unpickle what another sent; nothing catches it."""


def _refused(*_args: object, **_options: object) -> NoReturn:
    raise UnpickledError("an object collective was called: its receivers unpickle what arrives")


def refuse_object_collectives() -> None:
    """From now on in this process."""
    from torch.distributed import distributed_c10d

    # every object collective calls the one to send and the other to receive
    for name in ("_object_to_tensor", "_tensor_to_object", "_pickler", "_unpickler"):
        assert hasattr(distributed_c10d, name), f"torch renamed {name}: guard what replaced it"
        setattr(distributed_c10d, name, _refused)


def use_one(_job: dict[str, object]) -> None:
    """In a rank: what must fail."""
    from torch.distributed import distributed_c10d

    distributed_c10d.init_process_group("gloo")
    distributed_c10d.all_gather_object([None, None], "anything")
