"""How does retrofitting work?"""
