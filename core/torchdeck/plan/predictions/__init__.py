"""Predicted samples, tokens and bytes of every rank over the whole run."""
