"""From facts to what people see."""
