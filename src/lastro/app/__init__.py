"""Use cases: the actions of commands on studies, hosts and campaigns, without arguments and output."""
