"""Which cores of which devices a model runs on: asked for, checked, and what came of it."""
