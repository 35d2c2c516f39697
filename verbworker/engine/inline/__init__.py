"""The inline engine: the embedded engine's kernel in memory, for tests and experiments."""

from verbworker.engine.inline.clock import Clock
from verbworker.engine.inline.engine import InlineEngine
from verbworker.engine.inline.jobs import JobState, MemoryJob

__all__ = ["Clock", "InlineEngine", "JobState", "MemoryJob"]
