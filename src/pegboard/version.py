"""The version, where a module needs it that the package root imports."""

VERSION = "0.1.0"
