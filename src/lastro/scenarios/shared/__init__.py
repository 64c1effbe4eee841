"""Modules that several scenarios share: deployment, timing, meters, probes, storage and the topology record."""
