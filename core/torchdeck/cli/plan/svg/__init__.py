"""A preview as a picture: SVG written by hand, that any browser shows, light and dark."""
