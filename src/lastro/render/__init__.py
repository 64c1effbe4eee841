"""Renderers of documents: text for a terminal, Markdown, HTML and LaTeX."""
