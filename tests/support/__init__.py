ALPHA = 1e-5
"""Level of every statistical test: with a fixed seed, a failure means a wrong line, not bad luck."""
