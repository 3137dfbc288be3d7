"""Drawing the next token on the host."""
