# The guestbook's web page: guestbook.php?cmd=set&key=messages&value=... stores in the leader, cmd=get reads from a follower.
import http.server, socket, socketserver, urllib.parse

def redis(host, *words):
    request = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in (x.encode() for x in words))
    with socket.create_connection((host, 6379), 5) as c:
        c.sendall(request)
        f = c.makefile("rb")
        head = f.readline().strip()
        if head.startswith(b"$"):
            n = int(head[1:])
            return f.read(n).decode() if n >= 0 else ""
        return head.decode()

class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        q = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        if q.get("cmd") == "set":
            body = redis("redis-leader", "SET", q["key"], q["value"])
        elif q.get("cmd") == "get":
            body = redis("redis-follower", "GET", q["key"])
        else:
            body = "<h2>Guestbook</h2>"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body.encode())

class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

Server(("", 80), Page).serve_forever()
