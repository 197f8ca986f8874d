"""The distribution-shift suite: every method on scenes with shifted test sets."""
