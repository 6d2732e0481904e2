"""What was measured beforehand: a table (*.json) for each kind of device. `core/tune.py` reads
them."""
