"""Statistics, independent of files, campaigns and screens. The unit of inference is the trial."""
