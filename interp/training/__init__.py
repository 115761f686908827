"""Learning of a model: its gradients, the curvature of its loss, and how its activations move."""
