"""The words of documents, in both languages: sentences, and the form of numbers."""
