"""Questions of a preview: asked while Launch is in sight, put off while it is not."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from support.cli.asking import Person
from torchdeck.nodes.ssh.target import SshTarget
from torchdeck_app.bridge.logins import make_logins
from torchdeck_app.launch.visible_prompts import AskedInSight

NODE = SshTarget("n", "h", 22, "me")


def test_nobody_is_asked_for_what_nobody_looks_at(tmp_path: Path) -> None:
    """It is tried again, once, when it comes into sight."""
    person = Person(passwords=["one", "two"], trusts=True)
    asked = AskedInSight(make_logins(tmp_path, person))
    assert asked.connector.asker is asked
    assert asked.password(NODE, again=False) is None
    assert not asked.trust(NODE, "ssh-ed25519", "SHA256:x")
    assert person.asked == []
    assert asked.come_into_sight()
    assert asked.password(NODE, again=False) == "one"
    assert asked.trust(NODE, "ssh-ed25519", "SHA256:x")
    asked.go_out_of_sight()
    assert not asked.come_into_sight(), "nothing was wanted meanwhile"


class Moving(Person):
    """Whoever is asked goes somewhere else before the answer."""

    def __init__(self, *passwords: str) -> None:
        super().__init__(passwords=passwords)
        self.goes: Callable[[], object] = lambda: None

    def password(self, target: SshTarget, *, again: bool) -> str | None:
        self.goes()
        return super().password(target, again=again)


def test_what_was_declined_after_leaving_is_not_put_off(tmp_path: Path) -> None:
    """Whoever was asked has said no: coming back is no reason to ask again."""
    person = Moving()
    asked = AskedInSight(make_logins(tmp_path, person))
    person.goes = asked.go_out_of_sight
    asked.come_into_sight()
    assert asked.password(NODE, again=False) is None
    assert len(person.asked) == 1
    assert not asked.come_into_sight()


def test_what_comes_into_sight_while_nobody_is_asked_is_asked_for(tmp_path: Path) -> None:
    """Else it would wait until Launch is left and looked at again."""
    nobody, person = Moving(), Person(passwords=["one"])
    logins = make_logins(tmp_path, person)
    asked = AskedInSight(replace(logins, quiet=replace(logins.quiet, asker=nobody)))
    nobody.goes = asked.come_into_sight
    assert asked.password(NODE, again=False) == "one"
    asked.go_out_of_sight()
    assert not asked.come_into_sight()
