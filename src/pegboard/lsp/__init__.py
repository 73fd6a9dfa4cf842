"""lsp: language servers and checkers: what a write broke, and where a symbol is defined and used."""
