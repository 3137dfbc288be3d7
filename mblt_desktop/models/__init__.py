"""The models pane."""
