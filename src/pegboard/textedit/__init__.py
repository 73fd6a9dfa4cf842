"""textedit."""
