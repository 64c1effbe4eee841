"""What a trial yields, and where a campaign keeps it."""
