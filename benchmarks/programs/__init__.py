"""Programs of many kinds, written the plain way, beside their twins in PyTorch."""
