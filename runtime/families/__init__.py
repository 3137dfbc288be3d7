"""One adapter per model family, between the engine and transformers-mblt."""
