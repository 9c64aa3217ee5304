"""Nodes page: machines and their activity."""
