"""The pages, one file each; `main.py` lists them."""
