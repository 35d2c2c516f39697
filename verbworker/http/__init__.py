"""What every server of ours shares: the body of a request, a socket that listens, and an end without lost answers."""
