"""From verdicts, or from lines, to a rule."""
