"""A study: a TOML file made into a model, and the model made into ordered trials. Pure; no root needed."""
