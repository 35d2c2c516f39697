"""Work moves a job along: push, run, pop, return."""
