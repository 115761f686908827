"""What is asked of a network as of a writer and a reader of phrases."""
