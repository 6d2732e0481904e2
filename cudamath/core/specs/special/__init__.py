"""Special functions of one number each, in float64, before anybody compiles them."""
