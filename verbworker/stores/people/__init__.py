"""What is stored about people who use the console: their sessions. Knows nothing of cookies or HTTP."""
