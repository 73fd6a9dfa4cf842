"""interop: other frameworks' tools to and from ours, always through the full pipeline."""
