"""Values of the usage, capacity and fleet reports, and their pseudonyms."""
