"""One call: decode, plan, authorise, run, shape, record."""
