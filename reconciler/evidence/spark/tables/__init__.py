"""Tables of the store as data frames: schemas, readers, writers and time windows."""
