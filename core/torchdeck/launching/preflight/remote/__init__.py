"""Checks of nodes reached over SSH: facts of each compared with the plan and its peers."""
