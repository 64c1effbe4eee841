"""Builders of documents: each turns the results of one analysis into the blocks of one document."""
