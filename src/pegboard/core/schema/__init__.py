"""A signature, its JSON Schema, and arguments that fit it."""
