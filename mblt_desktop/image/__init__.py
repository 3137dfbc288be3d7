"""The image pane."""
