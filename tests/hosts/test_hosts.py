"""The hosts that other tests run on are what they are said to be, and nothing of them is left behind."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.hosts.hosts import TestHosts
from support.waiting import wait_until

Hosts = Callable[..., TestHosts]


def ssh(hosts: TestHosts, host: int, line: str, *, wait: int = 15) -> subprocess.CompletedProcess[str]:
    """What the host's sshd does with `line`; it has `wait` seconds to answer."""
    known = hosts.folder / "known_hosts"
    options = [
        "-F",
        "none",
        "-o",
        f"UserKnownHostsFile={known}",
        "-o",
        "BatchMode=yes",
        "-o",
        f"ConnectTimeout={wait}",
    ]
    argv = ["ssh", *options, "-i", str(hosts.key), f"root@{hosts.address(host)}", line]
    return subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)


def test_each_host_has_a_network_a_home_and_a_boot_id_of_its_own(hosts: Hosts) -> None:
    made = hosts(2)
    seen = [
        ssh(
            made,
            host,
            "hostname; cat /proc/sys/kernel/random/boot_id; echo $HOME; ls -A ~; ip -4 -o addr show eth0",
        )
        for host in (1, 2)
    ]
    lines = [one.stdout.splitlines() for one in seen]
    assert [one[0] for one in lines] == [made.name(1), made.name(2)]
    assert len({one[1] for one in lines}) == 2
    assert [Path(one[2]) for one in lines] == [made.home(1), made.home(2)]
    assert [made.address(host) in one[3] for host, one in zip((1, 2), lines, strict=True)] == [True, True]


def test_hosts_reach_each_other_by_name_and_a_cut_link_is_healed(hosts: Hosts) -> None:
    made = hosts(2)
    meet = f"exec 3<>/dev/tcp/{made.name(2)}/22 && read -t 15 line <&3 && echo $line"
    assert made.enter(1, ["bash", "-c", meet]).stdout.startswith("SSH-2.0")
    made.cut(2)
    assert ssh(made, 2, "true", wait=1).returncode == 255
    made.heal(2)
    assert ssh(made, 2, "true").returncode == 0


def test_a_blocked_port_is_blocked_for_whom_it_was_said(hosts: Hosts) -> None:
    made = hosts(2)
    made.block_port(2, "22", sender=made.here)
    assert ssh(made, 2, "true", wait=1).returncode == 255
    made.enter(1, ["bash", "-c", f"exec 3<>/dev/tcp/{made.address(2)}/22"])
    made.unblock_ports(2)
    assert ssh(made, 2, "true").returncode == 0


def test_a_host_that_was_switched_off_comes_back_as_another_boot(hosts: Hosts) -> None:
    made = hosts(1)
    before = ssh(made, 1, "cat /proc/sys/kernel/random/boot_id; touch ~/kept").stdout
    made.power_off(1)
    assert made.pids(1) == []
    made.boot(1)
    after = ssh(made, 1, "cat /proc/sys/kernel/random/boot_id; ls ~/kept").stdout
    assert before.splitlines()[0] != after.splitlines()[0]
    assert after.splitlines()[1].endswith("/kept")


def test_a_small_home_fills_up_and_a_shared_one_is_shared(hosts: Hosts) -> None:
    small = hosts(1, home_size="1m")
    full = ssh(small, 1, "head -c 3000000 /dev/zero >~/big")
    assert full.returncode != 0
    assert "No space left" in full.stderr
    shared = hosts(2, shared_home=True)
    ssh(shared, 1, "echo word >~/note")
    assert ssh(shared, 2, "cat ~/note").stdout == "word\n"


def test_a_shifted_clock_is_shifted_for_what_sshd_starts(hosts: Hosts) -> None:
    made = hosts(1)
    made.shift_clock(1, 600)
    shifted = float(ssh(made, 1, "date +%s.%N").stdout)
    true = float(subprocess.run(["date", "+%s.%N"], capture_output=True, check=True).stdout)
    assert 590 < shifted - true < 610


@pytest.mark.hosts
def test_hosts_of_a_test_run_that_was_killed_are_removed_by_the_next() -> None:
    victim = subprocess.Popen(
        _python(
            "import time\nwith TestHosts(1) as made:\n"
            "    (made.folder / 'mark').touch()\n"
            "    print(made.pids(1)[0], made.folder / 'mark', flush=True); time.sleep(60)\n"
        ),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert victim.stdout is not None
    with victim.stdout:
        pid, mark = victim.stdout.readline().split()
    victim.send_signal(signal.SIGKILL)
    victim.wait(20)
    alive, kept = Path(f"/proc/{pid}"), Path(mark)
    # who tests beside this one may be the next already: it ends the host, and then removes the folder
    wait_until(lambda: alive.exists() or not kept.exists(), 10, "a host that outlives its run, or no folder")
    subprocess.run(_python("with TestHosts(1): pass"), check=True, timeout=60)
    wait_until(lambda: not kept.exists(), 10, "the killed run's folder to be gone")
    wait_until(lambda: not alive.exists(), 10, "the killed run's host to be gone")


def _python(code: str) -> list[str]:
    tests = str(Path(__file__).parents[1])
    begin = f"import sys; sys.path.insert(0, {tests!r})\nfrom support.hosts.hosts import TestHosts\n"
    return [sys.executable, "-c", begin + code]
