"""The results page: figures, tables, notes and sections, as HTML and as Markdown."""
