"""Processes under an agent: shim, torchrun, rank shims, and ending all of them."""
