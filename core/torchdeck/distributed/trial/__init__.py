"""Trial before a start: torchrun on every node and one all-reduce. Its scripts are sent as text.

They need torch but no part of Torchdeck, and write their results as marked lines of JSON.
"""
