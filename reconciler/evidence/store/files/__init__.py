"""Files of the store: addresses, object stores, local disks, Parquet files and Arrow tables."""
