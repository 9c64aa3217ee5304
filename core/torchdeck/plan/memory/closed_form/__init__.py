"""A model known only by a few numbers: its weights exactly, its activations by formula."""
