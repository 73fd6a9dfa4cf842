"""browser: Chromium, driven by Playwright, behind the checking proxy."""
