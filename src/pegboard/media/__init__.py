"""media: pictures and speech, made here or by a provider."""
