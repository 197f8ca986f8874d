"""The benchmark grid: configurations, runs, records, executors and tables."""
