"""Models of two sides: an encoder reads the source of a pair, a decoder makes its target."""
