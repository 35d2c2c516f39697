"""Messages from outside: taken in, addressed to a case, delivered to the engine."""
