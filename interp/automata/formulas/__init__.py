"""Rules from labelled words: formulas of simple properties, the shortest first."""
