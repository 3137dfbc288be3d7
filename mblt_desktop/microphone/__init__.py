"""The microphone pane."""
