"""What training did to a run."""
