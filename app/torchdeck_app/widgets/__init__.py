"""Small widgets shared by several pages."""
