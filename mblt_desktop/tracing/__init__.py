"""The tracing pane."""
