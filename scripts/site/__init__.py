"""The site of the documentation: pages, reference from the code, and a check of links."""
