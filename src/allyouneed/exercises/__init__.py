"""Exercises with a teacher: `check("1.2", answer)` says which mistake an answer makes."""

from .core import Verdict, check, examine, progress

__all__ = ["Verdict", "check", "examine", "progress"]
