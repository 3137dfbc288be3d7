"""What must not be lost: conversations, transcripts and images, in one SQLite file."""
