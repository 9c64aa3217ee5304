"""Following runs that other machines started."""
