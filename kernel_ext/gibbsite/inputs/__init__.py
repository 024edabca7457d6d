"""What people pass in (tables, columns, lists, dates) → arrays, with their labels and units."""
