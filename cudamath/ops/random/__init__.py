"""Random generators and distributions."""
