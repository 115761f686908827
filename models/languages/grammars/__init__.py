"""Languages above the regular ones: those of a grammar, and those that need more than a stack."""
