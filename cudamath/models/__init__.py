"""Complete small models as functions of their parameters: readable, trainable, and tested."""
