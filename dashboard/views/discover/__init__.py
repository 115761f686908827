"""From a network's verdicts, or from labelled lines, to a rule."""
