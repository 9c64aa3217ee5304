"""Recipes that come with Torchdeck, a folder for each.

`recipe.py` has the functions, as the file of a user's own recipe has them (`torchdeck.distributed.recipe`).
`settings.py` describes the options of [model] and [data]; it needs pydantic, imports no torch, and is read
where runs are planned, not on nodes.
"""
