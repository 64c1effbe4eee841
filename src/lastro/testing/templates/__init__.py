"""Working parts to start from: `lastro new --part KIND NAME` copies one under another name."""
