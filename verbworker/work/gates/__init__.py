"""Human gates: user-task jobs and the decisions that complete them."""
