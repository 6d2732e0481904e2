"""From an op and its arrays to a call: op cards, plans, generated code, measured choices."""
