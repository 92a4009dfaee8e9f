"""Which network comes out when trained ones are fused?"""
