"""What was measured beforehand: a table (*.json) for each kind of device.
`core/dispatch/autotune.py` reads them."""
