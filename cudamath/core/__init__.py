"""What an array and an op are: layouts, arrays, plans, op cards, the gradient tape. No maths, no
kernels."""
