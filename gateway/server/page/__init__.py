"""The live page: what goes in, what comes out, as it happens.

guard.py: who may look. figures.py: what is shown of streams and totals, numbers and names only. feed.py: the event stream that carries
them. static/: the page itself, served from the package; it asks nobody else for anything.
"""
