"""Work that the window reduces while idle."""
