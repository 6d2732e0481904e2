"""Random numbers, samplers and dropout."""
