"""Causes of failures and their remedies."""
