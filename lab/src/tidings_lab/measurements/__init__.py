"""Measurements of the experiments. Each module has `steps(parameters)` and `measure(posts, parameters, seed)`."""
