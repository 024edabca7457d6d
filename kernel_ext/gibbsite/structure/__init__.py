"""A model whose Python control flow reads what it draws → the static models of all its ways, and chains that
go between them."""
