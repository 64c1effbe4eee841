"""What a campaign says as data for programs: JSON, with stable keys."""
