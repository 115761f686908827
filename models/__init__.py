"""What is trained: languages, models, objectives, training, runs."""

# A configuration is checked against the registry of families: whoever has one has the other.
import models.families  # noqa: F401  (imported for what it registers)
