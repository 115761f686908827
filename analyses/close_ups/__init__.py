"""One head, one probe, one circuit, one word: what a page asks while somebody looks."""
