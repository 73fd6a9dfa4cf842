"""Judging URLs before anything connects to them; the judge is in `net`, where every connection is made."""

from pegboard.net.urls import Resolve, Verdict, judge_url, resolve_here

__all__ = ["Resolve", "Verdict", "judge_url", "resolve_here"]
