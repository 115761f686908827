"""One page a file; each has a function ``show``."""
