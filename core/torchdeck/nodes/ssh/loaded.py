"""What a connection imports once it is wanted: for who has time before that."""

import cryptography.hazmat.primitives.asymmetric.ed25519
import cryptography.hazmat.primitives.ciphers
import paramiko

__all__ = ["cryptography", "paramiko"]
