"""One job from push to return: claim, run, verdict, report. It asks an engine only through `job_commands`."""
