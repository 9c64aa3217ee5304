"""A model traced without its memory: built on the meta device and run once, in a process of its own."""
