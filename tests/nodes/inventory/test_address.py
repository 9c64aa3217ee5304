"""Addresses as people type them for ssh, taken apart into the keys of the node inventory."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdeck.config.problems import ConfigError
from torchdeck.nodes.inventory.address import taken_apart
from torchdeck.nodes.inventory.problems import made_entry

HOSTS = st.from_regex(r"[a-z0-9][a-z0-9.-]{0,20}", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("10.77.1.12:22", {"address": "10.77.1.12", "port": 22}),
        ("root@host", {"address": "host", "user": "root"}),
        ("ssh://me@host:7/", {"address": "host", "user": "me", "port": 7}),
        ("[fd00::5]:2222", {"address": "fd00::5", "port": 2222}),
        ("fd00::5", {"address": "fd00::5"}),
        ("::1", {"address": "::1"}),
        ("a b", {"address": "a b"}),
        ("@host", {"address": "@host"}),
    ],
)
def test_user_and_port_are_found(text: str, parts: dict[str, Any]) -> None:
    assert taken_apart(text) == parts


@given(HOSTS, st.integers(1, 65535))
def test_a_host_stays_itself_and_its_port_is_not_part_of_it(host: str, port: int) -> None:
    assert taken_apart(host) == {"address": host}
    assert taken_apart(f"me@{host}:{port}") == {"address": host, "user": "me", "port": port}


def test_a_port_in_the_address_of_a_book_is_refused_with_what_would_be_right() -> None:
    with pytest.raises(ConfigError) as caught:
        made_entry("n3", {"address": "10.77.1.12:22"})
    (problem,) = caught.value.problems
    assert problem.path == "nodes.n3.address"
    assert problem.right == 'address = "10.77.1.12" and port = 22'
    assert made_entry("n3", {"address": "fd00::5"}).address == "fd00::5"
