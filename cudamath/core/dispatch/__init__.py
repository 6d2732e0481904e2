"""From an op and its arrays to a call: ops, plans, the fast path, generated code, autotuning."""
