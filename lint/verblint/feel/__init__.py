"""FEEL: a tokenizer for all of it, and a parser for the conditions a hollow model may use."""
