"""The effects of training on a run."""
