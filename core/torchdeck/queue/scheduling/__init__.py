"""Scheduler of the queue: pure functions from entries and machines to starts and waits."""
