"""Heartbeat, stacks and collectives of a rank. Standard library, Python 3.10."""
