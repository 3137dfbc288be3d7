"""A software NPU under the vendor's real code: right answers and API behaviour, not ARIES timing."""
