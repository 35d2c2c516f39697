"""Internal jobs of woven models: execution listeners, completion and compensation."""
