"""What our HTTP servers share: request bodies, API keys, a listening socket, and a graceful shutdown."""
