"""What an operator and its clusters are configured with: settings, credentials, client sessions and limits."""
