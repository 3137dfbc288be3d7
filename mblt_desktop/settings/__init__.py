"""Preferences: their declarations' store and their pane."""
