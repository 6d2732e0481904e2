"""Layer, group and batch normalisation: forward and backward."""
