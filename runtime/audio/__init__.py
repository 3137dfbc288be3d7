"""Decoding, resampling, capture, voice activity and subtitles."""
