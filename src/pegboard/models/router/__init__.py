"""router: from a plain request to one tool call, by words and copied spans; no language model."""
