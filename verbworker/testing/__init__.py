"""Testing kit for verb authors: an in-memory engine with injectable faults, and a crash at every point."""

from verbworker.engine.inline import Clock, InlineEngine, JobState
from verbworker.job.failpoint import Point

__all__ = ["Clock", "InlineEngine", "JobState", "Point"]
