"""Figures, measured as ratios within one run; never asserted as wall-clock time."""
