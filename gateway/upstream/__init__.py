"""The way to an upstream: our own transport for httpx, HTTP/1.1 and HTTP/2, and where requests go.

In the order of a request: transport.py (direct or by proxies.py, kept, shared or fresh) -> pool.py or sharing.py, or connect.py with
secure.py over tls.py for TLS -> one of two connections, both over flow.py:
- http1.py carries one exchange at a time: it writes by request.py and upload.py and parses by message.py.
- http2.py carries many: outbound.py sends (fields.py, literal.py, upload.py), frames.py cuts what comes, streams.py is one exchange,
  windows.py counts what may be unread, watch.py is the timer.
-> body.py, read by push or by iteration. push.py gives the same push over streams that are not ours. failures.py holds the sentences.
"""
