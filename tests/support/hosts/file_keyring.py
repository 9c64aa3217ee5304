"""A keyring for tests: `keyring` finds it by PYTHON_KEYRING_BACKEND; its secrets lie in a file."""

import json
import os
from pathlib import Path

from keyring.backend import KeyringBackend
from keyring.errors import PasswordDeleteError

FILE_VARIABLE = "TESTS_KEYRING_FILE"


class FileKeyring(KeyringBackend):
    """In the clear, in the file that `FILE_VARIABLE` names."""

    priority = 1

    def __init__(self) -> None:
        """Nothing to set up."""

    def get_password(self, service: str, username: str) -> str | None:
        """What was set."""
        return self._all().get(f"{service}/{username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        """Write it down."""
        self._write({**self._all(), f"{service}/{username}": password})

    def delete_password(self, service: str, username: str) -> None:
        """Strike it out."""
        held = self._all()
        if held.pop(f"{service}/{username}", None) is None:
            raise PasswordDeleteError("there is none of that name")
        self._write(held)

    def _all(self) -> dict[str, str]:
        path = Path(os.environ[FILE_VARIABLE])
        held: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
        return held

    def _write(self, held: dict[str, str]) -> None:
        Path(os.environ[FILE_VARIABLE]).write_text(json.dumps(held))
