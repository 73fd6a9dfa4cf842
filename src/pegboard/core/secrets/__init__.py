"""What is never shown: redaction, secret handles, clipping."""
