"""Speech recognition: the engines and the service of the speech lane."""
