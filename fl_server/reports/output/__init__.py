"""How tables and plots look: text, LaTeX, HTML, terminal, pictures."""
