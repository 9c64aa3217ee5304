"""Alerts of a run: the leader's agent decides when, a process of its own delivers them. Standard library."""
