"""A node's card: what is wrong with the node, what helps, and the button that does it."""

import pytest
from pytestqt.qtbot import QtBot

from support.values.node_facts import node_facts, python
from torchdeck.nodes.inventory.schema import NodeEntry
from torchdeck.nodes.probe.facts import RunHere
from torchdeck_app.nodes.card_words import why_words
from torchdeck_app.nodes.node_cards import LEAST, NodeCard
from torchdeck_app.nodes.node_sight import NodeSight, Standing
from torchdeck_app.theme.theme import Theme


@pytest.fixture
def card(theme: Theme, qtbot: QtBot) -> NodeCard:
    made = NodeCard(theme, "n1", NodeEntry(address="10.0.0.5", venv="~/env"))
    qtbot.addWidget(made)
    return made


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ({"torch": None}, "/usr/bin/python3 has no torch. torch is required"),
        ({"version": "3.8.10"}, "/usr/bin/python3 is Python 3.8.10; runs need 3.10 or newer"),
        ({"error": "it ended with signal 11"}, "/usr/bin/python3: it ended with signal 11"),
    ],
)
def test_a_python_that_runs_cannot_use_is_said_with_what_helps(
    card: NodeCard, qtbot: QtBot, said: dict[str, str | None], wrong: str
) -> None:
    facts = node_facts(pythons=[python(**said)])
    card.show_sight(NodeSight("n1", Standing.REACHED, facts=facts))
    assert card._lack.text() == f"{wrong}\n→ Choose another virtual environment for it"
    with qtbot.waitSignal(card.edit_asked) as asked:
        card.python_button.click()
    assert asked.args == ["n1"]
    card.show_sight(NodeSight("n1", Standing.REACHED, facts=node_facts()))
    assert card._lack.isHidden()
    assert card.python_button.isHidden()


def test_a_driver_that_does_not_answer_is_not_mended_in_the_node_book(card: NodeCard) -> None:
    gpu = {"devices": [], "driver": "", "cuda": "", "error": "nvidia-smi: driver mismatch"}
    card.show_sight(NodeSight("n1", Standing.REACHED, facts=node_facts(gpu=gpu)))
    assert card._lack.text() == "nvidia-smi: driver mismatch"
    assert card.python_button.isHidden()


def test_why_a_node_is_not_reached_stands_over_what_helps(card: NodeCard) -> None:
    sight = NodeSight("n1", Standing.NO_PYTHON, "Node n1: its Python ended", "Choose another Python for it")
    card.show_sight(sight)
    assert card._why.text() == "Its Python ended\n→ Choose another Python for it"
    assert card.help_button.text() == "Edit …"


FINGERPRINT = "SHA256:" + "W" * 43


def test_a_fingerprint_is_wrapped_in_full_and_no_card_is_wider_than_its_column(
    card: NodeCard, qtbot: QtBot
) -> None:
    run = RunHere(
        run_id="20261122T2300Z-" + "long-" * 20,
        directory="",
        processes=(1,),
        ranks=(0,),
        user="",
        supervised=True,
    )
    why = f"Node n1: the host key is {FINGERPRINT}"
    card.show_sight(NodeSight("n1", Standing.KEY_CHANGED, why, facts=node_facts(), runs=(run,)))
    card.resize(LEAST, card.sizeHint().height())
    card.show()
    qtbot.waitExposed(card)
    assert card.minimumSizeHint().width() <= LEAST
    lines = card._why.height() / card._why.fontMetrics().lineSpacing()
    assert lines >= 3, "two lines of the fingerprint, after the one before it"
    assert card._why.text() == f"The host key is {FINGERPRINT}", "copied, it is whole"


@pytest.mark.parametrize(
    ("standing", "role"), [(Standing.NEEDS_LOGIN, "warning"), (Standing.KEY_CHANGED, "error")]
)
def test_the_reason_has_the_colour_of_the_state(
    card: NodeCard, theme: Theme, standing: Standing, role: str
) -> None:
    card.show_sight(NodeSight("n1", standing, "because"))
    card._why.ensurePolished()
    colour = card._why.palette().text().color()
    assert colour == theme.colour("warn" if role == "warning" else "bad")


def test_the_button_that_goes_gives_the_focus_to_the_cards_menu(card: NodeCard, qtbot: QtBot) -> None:
    card.show_sight(NodeSight("n1", Standing.KEY_UNKNOWN, "Host key not verified"))
    card.show()
    qtbot.waitExposed(card)
    card.help_button.setFocus()
    card.show_sight(NodeSight("n1"))
    assert card.focusWidget() is card.menu_button


def test_a_login_at_the_start_of_a_sentence_stays_as_it_is_written() -> None:
    assert why_words("n1", "Node n1: root@10.0.0.5:22 lets no one in") == "root@10.0.0.5:22 lets no one in"
    assert why_words("n1", "Node n1: it is silent") == "It is silent"
