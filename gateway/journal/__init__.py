"""What was sent, for whoever comes back: recordings of streams, in memory and in Redis."""
