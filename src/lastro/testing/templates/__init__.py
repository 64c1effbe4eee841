"""Parts to start from, as files that work: `lastro new --part KIND NAME` copies one under another name."""
