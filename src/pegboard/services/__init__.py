"""services: the use cases, as typed async methods; they print and parse nothing."""
