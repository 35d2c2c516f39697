"""FEEL: a tokenizer for the whole language, and a parser for the conditions a hollow model may use."""
