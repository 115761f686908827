"""The run folder: configuration, metrics, checkpoints, results, figures."""
