"""Options and option types that several commands share."""
