"""The formats of a report, one module each with a function `render`."""
