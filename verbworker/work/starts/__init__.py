"""How cases start and stop: requests, dispatch, direct verbs, duplicate instances, deployment and cancellation."""
