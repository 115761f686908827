"""Models that Transformers replaced: recurrent, convolutional and n-gram models."""
