"""Variables of NCCL, gloo and torch against each other, the node and the plan."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.plan.communication_variables import NodeSetting, contradictions, matching_interfaces

ETHERNET = frozenset({"lo", "eth0", "eth1", "docker0"})


def found(variables: dict[str, str], **options: Any) -> list[tuple[str, bool]]:
    """What is wrong, and whether it keeps ranks from connecting."""
    setting = NodeSetting(variables, **{"backend": "nccl", "interfaces": ETHERNET, **options})
    return [(each.what, each.fatal) for each in contradictions(setting)]


def test_nothing_is_wrong_with_what_fits() -> None:
    """Interfaces that exist, switches that are off, and what this node knows nothing of."""
    variables = {
        "NCCL_SOCKET_IFNAME": "eth",
        "GLOO_SOCKET_IFNAME": "eth0,eth1",
        "NCCL_IB_DISABLE": "0",
        "NCCL_P2P_DISABLE": "0",
        "NCCL_DEBUG": "WARN",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "3",
        "NCCL_SOCKET_NTHREADS": "8",
        "NCCL_NSOCKS_PERTHREAD": "8",
    }
    assert found(variables, nodes=2, gpus=8, infiniband=("mlx5_0",), nvlink=True) == []
    unknown = {"NCCL_SOCKET_IFNAME": "ib0", "GLOO_SOCKET_IFNAME": "ib0", "NCCL_IB_HCA": "mlx5_0"}
    assert found(unknown, interfaces=None, nodes=2) == []
    assert found({"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}) == []


@pytest.mark.parametrize(
    ("variables", "options", "said", "fatal"),
    [
        ({"NCCL_SOCKET_IFNAME": "ib"}, {}, "names no interface of the node", True),
        ({"NCCL_SOCKET_IFNAME": "=eth"}, {}, "names no interface of the node", True),
        ({"NCCL_SOCKET_IFNAME": "lo"}, {"nodes": 2}, "loopback", True),
        ({"NCCL_SOCKET_IFNAME": "^eth,docker"}, {"nodes": 2}, "loopback", True),
        ({"GLOO_SOCKET_IFNAME": "eth"}, {"backend": "gloo"}, "names no interface of the node", True),
        ({"GLOO_SOCKET_IFNAME": "eth0,ib0"}, {}, "names ib0, which the node does not have", True),
        ({"GLOO_SOCKET_IFNAME": "lo"}, {"nodes": 2, "backend": "gloo"}, "loopback", True),
        ({"NCCL_IB_DISABLE": "1", "NCCL_NET": "IB"}, {}, "NCCL_NET=IB requires InfiniBand", True),
        ({"NCCL_NET": "IB"}, {"infiniband": ()}, "has no InfiniBand device", True),
        ({"NCCL_IB_DISABLE": "1", "NCCL_IB_HCA": "mlx5"}, {}, "NCCL_IB_HCA=mlx5 chooses", False),
        ({"NCCL_IB_DISABLE": "1"}, {"nodes": 2, "infiniband": ("mlx5_0",)}, "leaves the InfiniBand", False),
        ({"NCCL_NET": "Socket", "NCCL_IB_HCA": "mlx5"}, {"infiniband": ("mlx5_0",)}, "no effect", False),
        ({"NCCL_IB_HCA": "=mlx5_1:1"}, {"infiniband": ("mlx5_0",)}, "it has mlx5_0", False),
        ({"NCCL_P2P_DISABLE": "1"}, {"gpus": 8, "nvlink": True}, "their NVLink is unused", False),
        ({"NCCL_P2P_LEVEL": "LOC"}, {"gpus": 2}, "copy through main memory", False),
        ({"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}, {"gpus": 2}, "only the network", False),
        ({"NCCL_ASYNC_ERROR_HANDLING": "1"}, {}, "is the old name of TORCH_NCCL_", False),
        ({"NCCL_MAX_NRINGS": "4", "NCCL_MAX_NCHANNELS": "8"}, {}, "the newer name counts", False),
        ({"NCCL_TREE_THRESHOLD": "0"}, {}, "has no effect", False),
        (
            {"TORCH_NCCL_BLOCKING_WAIT": "1", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"},
            {},
            "exclude each other",
            False,
        ),
        ({"TORCH_NCCL_DUMP_ON_TIMEOUT": "1", "TORCH_FR_BUFFER_SIZE": "0"}, {}, "writes nothing", False),
        ({"NCCL_SOCKET_NTHREADS": "16", "NCCL_NSOCKS_PERTHREAD": "8"}, {}, "is 128", False),
        ({"CUDA_LAUNCH_BLOCKING": "1"}, {}, "slows every step", False),
        ({"TORCH_DISTRIBUTED_DEBUG": "detail"}, {"backend": "gloo"}, "slows every step", False),
    ],
)
def test_one_sentence_for_each_contradiction(
    variables: dict[str, str], options: dict[str, Any], said: str, *, fatal: bool
) -> None:
    """Only what keeps ranks from connecting is fatal; each has a fix."""
    ((what, is_fatal),) = found(variables, **options)
    assert said in what
    assert is_fatal is fatal
    setting = NodeSetting(variables, **{"backend": "nccl", "interfaces": ETHERNET, **options})
    assert all(each.fix for each in contradictions(setting))


def test_levels_of_peer_copies_that_are_off_anyway() -> None:
    """Both are reported: that the level has no effect, and what the switch costs."""
    said = [what for what, _ in found({"NCCL_P2P_DISABLE": "1", "NCCL_P2P_LEVEL": "NVL"}, gpus=2)]
    assert len(said) == 2
    assert "NCCL_P2P_LEVEL=NVL has no effect" in said[0]


def test_settings_of_nccl_do_not_matter_to_gloo() -> None:
    variables = {"NCCL_IB_DISABLE": "1", "NCCL_IB_HCA": "mlx5", "NCCL_SOCKET_IFNAME": "ib", "NCCL_NET": "IB"}
    assert found(variables, backend="gloo") == []


NAMES = st.text("abe01", min_size=1, max_size=4)


@given(st.frozensets(NAMES, max_size=6), st.lists(NAMES, min_size=1, max_size=3), st.booleans())
def test_exclusion_is_the_complement(known: frozenset[str], names: list[str], exact: bool) -> None:
    """`^` selects what the list without it does not; `=` selects no more than prefixes do."""
    value = ("=" if exact else "") + ",".join(names)
    chosen = matching_interfaces(value, known)
    assert chosen <= known
    assert matching_interfaces(f"^{value}", known) == known - chosen
    assert known & frozenset(names) <= chosen
    if exact:
        assert chosen == known & frozenset(names)
