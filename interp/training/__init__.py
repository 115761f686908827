"""How a model learns: its gradients, the curvature of its loss, and how its activations move."""
