"""Machines of a job: their hardware, and how it is probed."""
