"""Results as data for programs: JSON with stable keys, JUnit XML, and text for Prometheus."""
