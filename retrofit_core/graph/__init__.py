"""A network as one flat graph of ATen operations, and Algorithm 1 on it. It stands beside `fusion/` until all numbers hold."""
