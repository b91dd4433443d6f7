require "socket"
load ENV.fetch("SIGNED")

server = TCPServer.new("127.0.0.1", Integer(ENV.fetch("PORT")))
loop do
  client = server.accept
  method, path = client.gets.to_s.split
  headers = {}
  while (line = client.gets) && line != "\r\n"
    name, value = line.chomp.split(": ", 2)
    headers[name] = value
  end
  code, text = 401, "not signed"
  if method && jobd_signed?(ENV.fetch("SECRET"), method, path, headers)
    code, text = 200, "job #{headers['Jobd-Id']} of #{headers['Jobd-Target']}"
  end
  client.write "HTTP/1.1 #{code} told\r\nContent-Length: #{text.bytesize}\r\nConnection: close\r\n\r\n#{text}"
rescue SystemCallError
  next # whoever was there is gone
ensure
  client&.close
end
