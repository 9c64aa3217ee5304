"""Probing of nodes from here: their hardware and activity, over one channel, without leaving anything on
them.
"""
