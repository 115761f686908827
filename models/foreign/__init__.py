"""Language models that the lab did not make: read from a folder, asked for verdicts on words."""
