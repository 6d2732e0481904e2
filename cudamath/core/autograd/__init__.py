"""The tape on which gradients are recorded, and the walk back over it."""
