"""sandbox: confinements of a command, one backend a file."""
