"""Asking the person for what a connection needs: host keys, passwords, passphrases."""
