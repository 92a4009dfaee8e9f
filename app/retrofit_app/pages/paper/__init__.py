"""Do the paper's numbers hold?"""
