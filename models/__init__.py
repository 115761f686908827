"""Languages, models, objectives, training and runs: all that is trained."""

from models.lazy import delay

delay("transformer_lens", "transformer_lens.utilities", "transformer_lens.conversion_utils")
