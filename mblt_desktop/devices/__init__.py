"""What the window knows about the device: which one it is, how it is doing, what a layout means on it."""
