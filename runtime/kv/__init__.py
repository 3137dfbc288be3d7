"""KV caches of conversations: what is held, what of it a prompt reuses, and where it is kept."""
