"""The meaning and cluster of a series: dialects of exporters, label matchers, cluster sources, scrape targets."""
