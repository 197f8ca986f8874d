"""Driving: an expert and its recordings, cloned controllers in closed loop, and what their uncertainty is good for."""
