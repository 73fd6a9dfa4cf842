"""Pegboard: the tool runtime for AI agents."""

from __future__ import annotations
