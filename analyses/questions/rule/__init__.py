"""Which rule describes a run."""
