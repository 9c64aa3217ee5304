"""Which samples go where: numpy only, the same code in the preview and in the ranks."""
