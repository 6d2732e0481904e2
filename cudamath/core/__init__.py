"""Arrays and ops: layouts, arrays, plans, op definitions, the gradient tape. No mathematics, no
kernels."""
