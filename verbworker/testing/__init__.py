"""Testing kit for verb authors: an engine in memory that misbehaves on request, and a crash at every point."""

from verbworker.engines.inline import Clock, InlineEngine, JobState

__all__ = ["Clock", "InlineEngine", "JobState"]
