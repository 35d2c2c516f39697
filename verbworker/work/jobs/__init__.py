"""One job from push to return: claim, run, verdict, report. It knows an engine only as `JobCommands`."""
