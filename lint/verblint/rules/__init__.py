"""One rule a module; the module, the rule, its fixtures and its page share one name."""
