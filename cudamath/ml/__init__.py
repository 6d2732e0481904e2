"""Machine-learning operations, functional as in torch.nn.functional: forward and gradient, on CPU and GPU."""
