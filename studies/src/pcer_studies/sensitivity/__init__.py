"""What the paper leaves open, trained in several readings, and how much it matters."""
