"""The explanation of the method, live in a browser: one file, without a server. It imports none of the app's other rooms."""
