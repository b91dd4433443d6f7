import os
from http.server import BaseHTTPRequestHandler, HTTPServer

exec(open(os.environ["SIGNED"]).read())


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        code, text = 401, "not signed"
        if jobd_signed(os.environ["SECRET"], self.command, self.path, self.headers):
            code, text = 200, "job %s of %s" % (self.headers["Jobd-Id"], self.headers["Jobd-Target"])
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())
        self.close_connection = True  # it serves one connection at a time

    do_PUT = do_POST

    def log_message(self, *_):
        pass


HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Receiver).serve_forever()
