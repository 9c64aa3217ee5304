"""Memory of every rank, predicted from a model's profile. Pure. All modules but `fullness` import numpy."""
