"""What the views of the preview share."""
