"""What the gateway costs, as ratios that anyone can take again: `python -m benchmarks` (see __main__)."""
