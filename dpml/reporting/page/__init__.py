"""The report's pages: their inputs, the HTML helpers, and one module for every kind of section."""
