"""Preview as a picture: handwritten SVG for any browser, light and dark."""
