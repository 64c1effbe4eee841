"""Statistics that know nothing of files, campaigns or screens. The unit of inference is the trial."""
