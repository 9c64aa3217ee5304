"""Checks of nodes that are reached over SSH: what each said of itself, laid beside the plan and its peers."""
