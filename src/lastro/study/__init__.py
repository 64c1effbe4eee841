"""Studies: a TOML file becomes a model, and the model becomes ordered trials. Pure; needs no root."""
