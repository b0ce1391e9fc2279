"""What a run came to, told: figures, pictures, a page; values in, values out."""
