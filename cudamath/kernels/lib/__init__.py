"""Device functions and planning helpers that several families share."""
