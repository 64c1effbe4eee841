"""Use cases: what commands do with studies, hosts and campaigns, without their arguments and their output."""
