"""Tests of pegboard.bus."""
