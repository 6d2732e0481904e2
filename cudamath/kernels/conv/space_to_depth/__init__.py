"""Convolutions of images of few channels, whose pixels side by side become one of more channels."""
