"""What experiments measure. Each module has `steps(parameters)` and `measure(posts, parameters, seed)`."""
