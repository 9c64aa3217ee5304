"""Model described by only a few numbers: its weights exactly, its activations by formula."""
