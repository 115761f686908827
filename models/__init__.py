"""Languages, models, objectives, training and runs: all that is trained."""

from models.lazy import delay

delay("networkx", *(f"transformer_lens{part}" for part in ("", ".utilities", ".conversion_utils")))
