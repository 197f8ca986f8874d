"""The distribution-shift suite."""
