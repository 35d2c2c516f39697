"""A fault harness of its own kind: it holds the product to the README's promises and knows none of its code."""
