"""The report's pages: what is read, how it is put into HTML, and one module for every kind of section."""
