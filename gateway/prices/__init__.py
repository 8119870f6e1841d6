"""What models cost: prices from the configuration above those of the catalogue, and projections from them."""
