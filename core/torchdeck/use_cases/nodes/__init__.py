"""Verbs on nodes: the inventory, host keys, probing, cleaning, connections."""
