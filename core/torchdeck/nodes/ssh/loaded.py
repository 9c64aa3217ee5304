"""Preloads the imports of a connection, for callers with spare time before it is needed."""

from torchdeck.nodes.ssh.quick_paramiko import import_paramiko

import_paramiko()

import cryptography.hazmat.primitives.asymmetric.ed25519  # noqa: E402 - as above
import cryptography.hazmat.primitives.ciphers  # noqa: E402
import paramiko  # noqa: E402

__all__ = ["cryptography", "paramiko"]
