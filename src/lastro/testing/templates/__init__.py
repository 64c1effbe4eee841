"""Working parts to start from: `lastro new --part KIND NAME` copies the one of this kind under the new name."""
