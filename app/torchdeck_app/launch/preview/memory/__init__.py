"""How full each device gets."""
