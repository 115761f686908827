"""Scripts: one question asked of one run; each writes a tidy table and a chart."""
