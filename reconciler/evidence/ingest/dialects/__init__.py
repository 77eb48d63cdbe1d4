"""What a series means and whose it is: dialects of exporters, label matchers, sources of clusters, targets."""
