"""Tree search over many positions at once."""
