"""Attention: forward, backward, decoding, rotary embeddings."""
