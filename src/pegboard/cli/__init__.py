"""cli: the `pegboard` command."""
