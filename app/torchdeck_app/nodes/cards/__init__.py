"""Inventory nodes as cards."""
