"""Answering on one loaded model: plan a step, execute it, commit what came of it."""
