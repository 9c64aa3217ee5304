"""Prompts for connections: host keys, passwords, passphrases."""
