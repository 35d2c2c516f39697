"""Safe rewrites of models, applied to bytes."""
