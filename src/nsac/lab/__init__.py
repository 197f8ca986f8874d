"""Everything that measures the library; the library never imports it."""
