"""Recording host spans and device events, and turning them into Perfetto traces."""
