"""Collectives: calls of NCCL on the device's stream."""
