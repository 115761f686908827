"""Objectives: what a model is taught, and how its answers are judged."""

from models.objectives.readout import LEAST, Output, Readout, read_at
from models.objectives.registry import OBJECTIVES, check_sight, objective, reading

__all__ = [
    "LEAST",
    "OBJECTIVES",
    "Output",
    "Readout",
    "check_sight",
    "objective",
    "read_at",
    "reading",
]
