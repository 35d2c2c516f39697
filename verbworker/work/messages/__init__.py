"""Messages from outside: accepted, addressed to a case, delivered to the engine."""
