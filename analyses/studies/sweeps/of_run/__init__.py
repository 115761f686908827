"""Numbers that a sweep measures of a run, beside how far it is right."""
