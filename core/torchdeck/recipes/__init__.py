"""Recipes that come with Torchdeck, and the options of each.

`bdh.py` has the functions of the recipe "bdh", as the file of a user's own recipe has them
(`torchdeck.distributed.recipe_loading`). `options/bdh.py` describes its keys in [model] and [data]: it needs
pydantic but not torch, and is read where runs are planned, not on nodes.
"""
