"""The results page: figures, sections and the HTML report."""
