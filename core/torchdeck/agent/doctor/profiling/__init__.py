"""Profiles of the ranks of a node."""
