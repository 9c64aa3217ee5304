"""Window: a viewer and editor for the engine's files. It owns no part of a run, and does not import torch."""
