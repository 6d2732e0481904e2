"""Reading and writing by index arrays and masks; embeddings."""
