"""One builder for each document: what an analysis found in, blocks of a document out."""
