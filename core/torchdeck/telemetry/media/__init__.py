"""Values of `torchdeck.log` besides numbers: images, texts, histograms and tables."""
