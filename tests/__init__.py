"""Every floor of tests, and what they stand on."""
