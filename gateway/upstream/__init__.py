"""The way to an upstream: our own HTTP/1.1 transport for httpx, and where requests go.

In the order of a request: transport.py (direct or by proxies.py, kept or fresh) -> pool.py, or connect.py with tls.py ->
http1.py over flow.py (secure.py for TLS), which writes by request.py and upload.py and parses by message.py -> body.py, read by
push or by iteration. push.py gives the same push over streams that are not ours. failures.py holds the sentences.
"""
