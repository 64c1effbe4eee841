"""The sentences of documents, and the format of numbers, in every language of reports."""
