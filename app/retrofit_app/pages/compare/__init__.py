"""Which network is better, and at what?"""
