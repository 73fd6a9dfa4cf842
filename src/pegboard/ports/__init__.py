"""ports: what a tool may ask of the world, one narrow Protocol a file."""
