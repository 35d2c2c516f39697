"""The formats of a report: one module each, with a `render` function."""
