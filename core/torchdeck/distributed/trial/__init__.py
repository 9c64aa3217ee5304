"""A trial before a start: torchrun on every node and one all-reduce. Its scripts are sent as texts.

They need torch and nothing of Torchdeck, and write what they come to as lines of JSON, marked.
"""
