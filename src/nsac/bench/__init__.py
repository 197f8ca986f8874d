"""Benchmarks: tasks, runs, tables and figures."""
