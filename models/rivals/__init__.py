"""What Transformers replaced: recurrent, convolutional and n-gram models."""
