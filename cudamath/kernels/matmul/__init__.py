"""Matrix products, linear layers and perceptrons."""
