"""Which models exist, where they come from; download, prepare, verify, remove."""
