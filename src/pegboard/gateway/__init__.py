"""gateway: what Pegboard can do, over HTTP."""
