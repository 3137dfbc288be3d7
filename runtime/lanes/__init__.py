"""The runtime's threads: how commands get to them and events out, and who watches them."""
