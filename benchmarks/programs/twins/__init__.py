"""The same programs in PyTorch, as a newcomer to it would write them: `model(c)` for each, whose
weights have the same names, and whose call gives the loss or the results."""
