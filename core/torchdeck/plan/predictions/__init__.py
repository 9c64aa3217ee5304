"""Samples, tokens and bytes of every rank over the whole run, predicted."""
