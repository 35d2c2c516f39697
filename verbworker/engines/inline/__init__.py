"""The inline engine: the embedded engine's kernel in memory, for tests and for trying things out."""

from verbworker.engines.inline.clock import Clock
from verbworker.engines.inline.engine import InlineEngine
from verbworker.engines.inline.jobs import JobState, MemoryJob

__all__ = ["Clock", "InlineEngine", "JobState", "MemoryJob"]
