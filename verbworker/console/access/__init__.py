"""Who may use the console: authentication, sessions, login and response headers."""
