"""Batch plans and the data they were made from, on disk."""
