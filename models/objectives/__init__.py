"""What a model is taught, and how its answers are judged."""

from models.objectives.readout import Readout, read_at
from models.objectives.registry import OBJECTIVES, check_sight, objective

__all__ = ["OBJECTIVES", "Readout", "check_sight", "objective", "read_at"]
