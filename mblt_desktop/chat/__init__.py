"""The chat pane."""
