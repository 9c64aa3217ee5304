"""Runs' folders: making, opening and deleting them, and what lies beside them."""
