"""From verdicts to automata, and from automata to rules in words."""
