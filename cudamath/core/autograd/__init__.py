"""The gradient tape and the backward pass."""
