"""Process that delivers one alert and journals the outcome: `python -I -B .../agent/alerts/sender.py`.

It reads its order, with the secrets in it, from standard input. It outlives the agent that started it, so no
beat and no end of a run waits for a slow server.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # -I leaves the shipped folder out

from torchdeck.agent.alerts.delivery import LIMIT, Delivered, deliver
from torchdeck.agent.alerts.order import Order, order_from
from torchdeck.agent.supervisor_process import set_process_name
from torchdeck.contract.journal import PatientJournalWriter
from torchdeck.contract.processes import make_private

SENT, FAILED = "alert_sent", "alert_failed"
"""Events in the journal of deliveries."""
PROCESS_NAME = "torchdeck-alert"
OWN_LIMIT = LIMIT + 30.0
"""Seconds after which the kernel ends this process, whatever it does."""


def send(order: Order) -> None:
    """Deliver, and journal the outcome for each target."""
    with PatientJournalWriter(Path(order.journal)) as journal:

        def report(found: Delivered) -> None:
            why: dict[str, Any] = {"why": found.why} if found.why else {}
            journal.append(
                FAILED if found.why else SENT,
                event_of=order.message.event,
                key=order.key,
                target=found.target,
                tries=found.tries,
                **why,
            )

        deliver(order.targets, order.message, order.secrets, report, delays=order.delays)


def main() -> int:
    """Carry out the order on standard input; 2 if there is none."""
    make_private()
    set_process_name(PROCESS_NAME)
    signal.setitimer(signal.ITIMER_REAL, OWN_LIMIT)
    try:
        order = order_from(sys.stdin.buffer.readline())
    except (ValueError, KeyError, TypeError):
        return 2  # without a traceback, which could show a secret
    send(order)
    return 0


if __name__ == "__main__":
    os.chdir("/")  # so that no folder of the login stays in use
    code = main()
    sys.stderr.flush()
    os._exit(code)  # a thread that still waits for a server must not keep it
