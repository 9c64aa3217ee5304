"""Python environments that this node makes with uv, from the files of a project; shared between runs."""
