"""What the commands of ``kquota spark`` run: inputs, session, results."""
