"""How the generators paint: noise, sprites, streets, sign plates, billiard tables and balls. NumPy and Pillow only."""
