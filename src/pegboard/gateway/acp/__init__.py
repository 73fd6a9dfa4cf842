"""The Agent Client Protocol: an editor's window on sessions, over standard input and output."""
