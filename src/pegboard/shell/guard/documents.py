"""documents placeholder."""
def document_matches(profile: str, command: str) -> None:
    return None
